/* The calls of sockets in a static program: waiting with and without an end, a server that forks,
 * descriptors that are passed on, datagrams by every call. Prints what goes wrong. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                                \
	do {                                                                                           \
		if (!(what)) {                                                                             \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, strerror(errno));                \
			exit(1);                                                                               \
		}                                                                                          \
	} while (0)

static struct sockaddr_in at(int port) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static int listening(int port) {
	struct sockaddr_in address = at(port);
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	CHECK(fd >= 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
	CHECK(bind(fd, (void *)&address, sizeof address) == 0);
	CHECK(listen(fd, 16) == 0);
	return fd;
}

static int connected(int port) {
	struct sockaddr_in address = at(port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(fd, (void *)&address, sizeof address) == 0);
	return fd;
}

static int ready(int fd, int events, int milliseconds) {
	struct pollfd polled = {.fd = fd, .events = events};
	int n = poll(&polled, 1, milliseconds);
	return n > 0 ? polled.revents : 0;
}

/* A server that forks for each connection; the child has it as its standard input and output. */
static void forks(void) {
	int server = listening(7001);
	for (int n = 0; n < 3; n++) {
		pid_t client = fork();
		if (client == 0) {
			close(server);
			int fd = connected(7001);
			char word[8] = {0};
			CHECK(send(fd, "hello", 5, MSG_NOSIGNAL) == 5);
			CHECK(shutdown(fd, SHUT_WR) == 0);
			CHECK(recv(fd, word, sizeof word, MSG_WAITALL) == 5);
			CHECK(memcmp(word, "hello", 5) == 0);
			_exit(0);
		}
		struct sockaddr_in from;
		socklen_t len = sizeof from;
		int fd = accept(server, (void *)&from, &len);
		CHECK(fd >= 0 && len == sizeof from && from.sin_family == AF_INET);
		pid_t child = fork();
		if (child == 0) {
			dup2(fd, 0), dup2(fd, 1), close(fd), close(server);
			execl("/proc/self/exe", "static", "cat", NULL);
			_exit(1);
		}
		close(fd);
		int status;
		CHECK(waitpid(client, &status, 0) == client && status == 0);
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	close(server);
}

static int cat(void) {
	char bytes[4096];
	ssize_t n;
	while ((n = read(0, bytes, sizeof bytes)) > 0)
		if (write(1, bytes, n) != n)
			return 1;
	return n < 0;
}

static void on_alarm(int signal) { (void)signal; }

/* Calls that wait: until a time, until a signal, and until there is something. */
static void waiting(void) {
	int server = listening(7002);
	struct timeval time = {.tv_usec = 50000};
	CHECK(setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
	CHECK(accept(server, NULL, NULL) < 0 && errno == EAGAIN);
	time.tv_usec = 0;
	CHECK(setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
	struct sigaction act = {.sa_handler = on_alarm};
	sigaction(SIGALRM, &act, NULL);
	ualarm(50000, 0);
	CHECK(accept(server, NULL, NULL) < 0 && errno == EINTR);
	/* A handler that has calls go on. */
	act.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &act, NULL);
	ualarm(20000, 20000);
	pid_t child = fork();
	if (child == 0) {
		usleep(100000);
		int fd = connected(7002);
		CHECK(write(fd, "x", 1) == 1);
		_exit(0);
	}
	int fd = accept4(server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) & FD_CLOEXEC);
	ualarm(0, 0);
	char byte;
	CHECK(ready(fd, POLLIN, 2000) & POLLIN);
	CHECK(read(fd, &byte, 1) == 1 && byte == 'x');
	CHECK(waitpid(child, NULL, 0) == child);
	CHECK(fcntl(server, F_SETFL, O_NONBLOCK) == 0);
	CHECK(accept(server, NULL, NULL) < 0 && errno == EAGAIN);
	CHECK(accept4(server, NULL, NULL, 1) < 0 && errno == EINVAL);
	CHECK(accept(fd, NULL, NULL) < 0 && errno == EINVAL);
	close(fd);
	/* What does not wait for its connection. */
	int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in address = at(7002);
	int epoll = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLOUT | EPOLLET};
	CHECK(connect(client, (void *)&address, sizeof address) < 0 && errno == EINPROGRESS);
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, client, &event) == 0);
	CHECK(epoll_wait(epoll, &event, 1, 2000) == 1 && event.events == EPOLLOUT);
	int error = -1;
	socklen_t len = sizeof error;
	CHECK(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
	CHECK(getpeername(client, (void *)&address, &(socklen_t){sizeof address}) == 0);
	CHECK(address.sin_port == htons(7002));
	/* It tells of the connection once more, and then that there is one. */
	CHECK(connect(client, (void *)&address, sizeof address) == 0);
	CHECK(connect(client, (void *)&address, sizeof address) < 0 && errno == EISCONN);
	CHECK(ready(server, POLLIN, 2000) & POLLIN);
	int peer = accept(server, NULL, NULL);
	CHECK(peer >= 0 && !(ready(server, POLLIN, 0) & POLLIN));
	/* A file, as sendfile sends it, and the end. */
	int file = open("body", O_RDONLY);
	off_t sent = 0;
	pid_t sender = fork();
	if (sender == 0) {
		while (sendfile(peer, file, &sent, 1 << 20) > 0)
			;
		_exit(sent != 3000000);
	}
	close(peer);
	CHECK(fcntl(client, F_SETFL, 0) == 0);
	char bytes[65536];
	size_t all = 0;
	for (ssize_t n; (n = read(client, bytes, sizeof bytes)) > 0; all += n)
		;
	CHECK(all == 3000000);
	CHECK(waitpid(sender, &error, 0) == sender && error == 0);
	close(client), close(server);
	/* Nobody is there: waiting and not. */
	address = at(7099);
	client = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(client, (void *)&address, sizeof address) < 0 && errno == ECONNREFUSED);
	server = listening(7099);
	CHECK(connect(client, (void *)&address, sizeof address) == 0);
	close(client), close(server);
	client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(connect(client, (void *)&address, sizeof address) < 0 && errno == EINPROGRESS);
	CHECK(ready(client, POLLOUT, 2000) & POLLOUT);
	CHECK(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == ECONNREFUSED);
	close(client);
}

/* Datagrams by all calls that there are. */
static void datagrams(void) {
	struct sockaddr_in address = at(7003), from = {0};
	socklen_t len = sizeof from;
	int server = socket(AF_INET, SOCK_DGRAM, 0), client = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(bind(server, (void *)&address, sizeof address) == 0);
	char bytes[9000] = {0};
	CHECK(sendto(client, "one", 3, 0, (void *)&address, sizeof address) == 3);
	CHECK(sendto(client, NULL, 0, 0, (void *)&address, sizeof address) == 0);
	CHECK(ready(server, POLLIN, 2000) & POLLIN);
	CHECK(recvfrom(server, bytes, 2, MSG_PEEK | MSG_TRUNC, (void *)&from, &len) == 3);
	CHECK(recvfrom(server, bytes, sizeof bytes, 0, (void *)&from, &len) == 3);
	CHECK(memcmp(bytes, "one", 3) == 0 && len == sizeof from);
	CHECK(recv(server, bytes, sizeof bytes, 0) == 0);
	CHECK(!(ready(server, POLLIN, 20) & POLLIN));
	/* The server's answers: by a message of two parts, to where the first came from. */
	struct iovec parts[2] = {{"an", 2}, {"swer", 4}};
	struct msghdr message = {.msg_name = &from, .msg_namelen = len, .msg_iov = parts, .msg_iovlen = 2};
	CHECK(sendmsg(server, &message, 0) == 6);
	CHECK(connect(client, (void *)&address, sizeof address) == 0);
	CHECK(read(client, bytes, sizeof bytes) == 6 && memcmp(bytes, "answer", 6) == 0);
	CHECK(write(client, "two", 3) == 3);
	CHECK(send(client, "three", 5, 0) == 5);
	struct mmsghdr many[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 1}},
							  {.msg_hdr = {.msg_iov = parts + 1, .msg_iovlen = 1}}};
	for (int sent = 0; sent < 2;) {
		int n = sendmmsg(client, many + sent, 2 - sent, 0);
		CHECK(n > 0);
		sent += n;
	}
	const char *words[] = {"two", "three", "an", "swer"};
	for (int n = 0; n < 4; n++) {
		struct sockaddr_in source = {0};
		struct iovec part = {bytes, sizeof bytes};
		struct mmsghdr one = {.msg_hdr = {&source, sizeof source, &part, 1, NULL, 0, 0}};
		CHECK(recvmmsg(server, &one, 1, 0, NULL) == 1);
		CHECK(one.msg_len == strlen(words[n]) && memcmp(bytes, words[n], one.msg_len) == 0);
		CHECK(source.sin_port == from.sin_port);
	}
	struct timeval time = {.tv_usec = 50000};
	CHECK(setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
	CHECK(recvfrom(server, bytes, 10, 0, (void *)&from, &len) < 0 && errno == EAGAIN);
	static char large[70000];
	time.tv_sec = 1L << 62;
	CHECK(setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
	struct sigaction act = {.sa_handler = on_alarm};
	sigaction(SIGALRM, &act, NULL);
	ualarm(50000, 0);
	CHECK(recvfrom(server, bytes, 10, 0, (void *)&from, &len) < 0 && errno == EINTR);
	ssize_t sent = sendto(client, large, sizeof large, 0, (void *)&address, sizeof address);
	CHECK(sent < 0 && errno == EMSGSIZE);
	/* Bad arguments: what the kernel says. */
	CHECK(sendto(client, (void *)8, 10, 0, (void *)&address, sizeof address) < 0 && errno == EFAULT);
	CHECK(sendto(client, "x", 1, 0, (void *)8, sizeof address) < 0 && errno == EFAULT);
	CHECK(bind(client, (void *)&address, -1) < 0 && errno == EINVAL);
	CHECK(getsockname(client, (void *)&from, (void *)8) < 0 && errno == EFAULT);
	CHECK(getsockname(-1, (void *)&from, &len) < 0 && errno == EBADF);
	CHECK(getsockname(999, (void *)&from, &len) < 0 && errno == EBADF);
	close(client), close(server);
	/* Nobody is there. */
	client = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(connect(client, (void *)&address, sizeof address) == 0);
	CHECK(send(client, "x", 1, 0) == 1);
	CHECK(ready(client, POLLIN, 2000) & (POLLIN | POLLERR));
	CHECK(recvfrom(client, bytes, 10, 0, (void *)&from, &len) < 0 && errno == ECONNREFUSED);
	close(client);
}

/* A connection that goes to another process by a message. */
static void passes(void) {
	int pair[2], server = listening(7004);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pid_t child = fork();
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control;
	char byte = 0;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	if (child == 0) {
		close(server), close(pair[0]);
		CHECK(recvmsg(pair[1], &message, 0) == 1);
		int fd = *(int *)CMSG_DATA(CMSG_FIRSTHDR(&message)), on = 1;
		socklen_t len = sizeof on;
		CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
		CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &on, &len) == 0 && on == SOCK_STREAM);
		CHECK(write(fd, "passed", 6) == 6);
		_exit(0);
	}
	int client = connected(7004), fd = accept(server, NULL, NULL);
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)CMSG_DATA(head) = fd;
	CHECK(sendmsg(pair[0], &message, 0) == 1);
	close(fd);
	char word[8];
	CHECK(recv(client, word, 6, MSG_WAITALL) == 6 && memcmp(word, "passed", 6) == 0);
	CHECK(recv(client, word, 6, 0) == 0);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	close(client), close(server);
}

int main(int argc, char **argv) {
	if (argc > 1)
		return cat();
	(void)argv;
	alarm(0);
	forks();
	waiting();
	datagrams();
	passes();
	puts("good");
	return 0;
}
