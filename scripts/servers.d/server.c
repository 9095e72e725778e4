/* An HTTP/1.1 server with nine threads, one of them for the counts, that answers after MICROSECONDS, one request
 * at a time, by a mutex; /count returns the number of requests so far. Arguments: PORT MICROSECONDS. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 9 };
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int listener, service_us;
static long count;

static void *serve(void *unused)
{
	(void)unused;
	for (;;) {
		int client = accept(listener, NULL, NULL);
		char request[4096], body[32], answer[128];
		while (client >= 0 && read(client, request, sizeof request) > 0) {
			snprintf(body, sizeof body, "%ld", __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED));
			if (strncmp(request, "GET /count", 10) != 0) {
				pthread_mutex_lock(&gate);
				usleep(service_us);
				pthread_mutex_unlock(&gate);
			}
			int size = snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
			if (write(client, answer, size) != size)
				break;
		}
		close(client);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	pthread_t thread;
	int on = 1;
	service_us = atoi(argv[2]);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (void *)&address, sizeof address) != 0 || listen(listener, 64) != 0)
		return 1;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, serve, NULL) != 0)
			return 1;
	pause();
	return 0;
}
