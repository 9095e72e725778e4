/* Methods, classes with bases, references and names in namespaces. */

#include <cstdint>
#include <string>
#include <utility>

#define KEPT __attribute__((noinline, noclone))

namespace net {

struct Address {
    uint16_t port;
};

class Base {
public:
    virtual ~Base() = default;
    int kind;
    Address address;
};

enum class Mode : uint8_t { Fast = 3, Slow };

class Conn : public Base {
public:
    int64_t id;
    Mode mode;
    static int made;

    KEPT Conn(int kind, int64_t id);
    KEPT int handle(int len, const Address &from);
    KEPT static bool make(Conn &conn, bool secure);
};

int Conn::made = -12;
volatile long sink;

Conn::Conn(int kind, int64_t id) : id(id), mode(Mode::Fast) {
    this->kind = kind;
    address.port = 80;
}

int Conn::handle(int len, const Address &from) {
    sink = kind + from.port + id;
    return len;
}

bool Conn::make(Conn &conn, bool secure) {
    sink = conn.id;
    return secure;
}

KEPT long move(Mode mode, Conn &&conn) {
    sink = static_cast<long>(mode);
    return conn.id;
}

} // namespace net

KEPT unsigned long text(const std::string &text, int after) {
    net::sink = after;
    return text.size();
}

int main() {
    net::Conn conn(4, 77);
    net::Address from{8080};
    conn.handle(-5, from);
    net::Conn::make(conn, true);
    net::move(net::Mode::Slow, std::move(conn));
    text("hello", -9);
    return net::Conn::made + 12;
}
