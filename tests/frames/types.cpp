// A struct that has a unit of its own if it is compiled with -fdebug-types-section.
namespace space {
struct Base {
  long id = 7;
};
struct Point : Base {
  short left = -5;
  const Point *next = nullptr;
};
__attribute__((noinline)) int taken(const Point &point) {
  asm volatile("" ::: "memory");
  return point.left;
}
}  // namespace space

space::Point first, second;

int main() {
  second.left = -6;
  first.next = &second;
  return space::taken(first) == 0;
}
