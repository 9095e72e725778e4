// Functions in namespaces, one of which has no name.
namespace space {
namespace {
__attribute__((noinline)) int hidden(int number) {
  asm volatile("" ::: "memory");
  return number + 1;
}
}  // namespace
__attribute__((noinline)) int shown(int number) {
  asm volatile("" ::: "memory");
  return hidden(number) + 1;
}
}  // namespace space

int main() { return space::shown(1) == 0; }
