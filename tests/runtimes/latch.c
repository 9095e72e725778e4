// A server with one thread and one client. With a request in hand, it waits in an epoll instance that
// has no connection, as PostgreSQL does for a row lock: the first time since before it is ready, then
// as long for each request. The client waits as long before the next one, meanwhile the server waits
// in an instance with the connection, or, with a third argument, in one with that instance.
// Arguments: how many requests it answers, and these milliseconds.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static void watch(int epoll, int file) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = file};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event) != 0) exit(1);
}
static void wait_for(int epoll) {
    struct epoll_event event;
    if (epoll_wait(epoll, &event, 1, -1) != 1) exit(1);
}
static void wait_ms(int epoll, int milliseconds) {
    struct epoll_event event;
    if (epoll_wait(epoll, &event, 1, milliseconds) != 0) exit(1);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int answers = atoi(argv[1]), milliseconds = atoi(argv[2]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    char byte;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&address, sizeof address) != 0 || listen(listener, 1) != 0) return 1;
    if (getsockname(listener, (void *)&address, &size) != 0) return 1;
    if (fork() == 0) {
        int server = socket(AF_INET, SOCK_STREAM, 0);
        close(0), close(1), close(listener);
        if (connect(server, (void *)&address, sizeof address) != 0) return 1;
        while (write(server, "?", 1) == 1 && read(server, &byte, 1) == 1) usleep(milliseconds * 1000);
        return 0;
    }
    int client = accept(listener, NULL, NULL), latch = eventfd(0, 0);
    int requests = epoll_create1(0), others = epoll_create1(0);
    int outer = argc > 3 ? epoll_create1(0) : requests;
    if (outer != requests) watch(outer, requests);
    watch(requests, client), watch(requests, 0);
    watch(others, latch), watch(others, 0);
    if (recv(client, &byte, 1, 0) != 1) return 1;
    puts("ready");
    fflush(stdout);
    wait_for(others);
    if (read(0, &byte, 1) != 1) return 1;
    // The end of the input is no event of these any more.
    if (epoll_ctl(others, EPOLL_CTL_DEL, 0, NULL) != 0 || epoll_ctl(requests, EPOLL_CTL_DEL, 0, NULL) != 0) return 1;
    for (int i = 0; i <= answers; i++) {
        wait_ms(others, milliseconds);
        if (i == answers) break;
        if (send(client, "!", 1, 0) != 1) return 1;
        wait_for(outer);
        if (recv(client, &byte, 1, 0) != 1) return 1;
    }
    printf("waited_ns %ld\npaused_ns %ld\n", (answers + 1) * milliseconds * 1000000L, answers * milliseconds * 1000000L);
    return 0;
}
