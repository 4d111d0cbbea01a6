/*
 * An NSM of one machine, which sends back whatever a program sends to it.
 *
 *   cc -o echo echo.c -I../include -L../../../target/release -lweir_nsm \
 *       -Wl,-rpath,"$PWD/../../../target/release"
 *   WEIR_NSM_TOKEN=... ./echo /run/weir/sock/door
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir_nsm.h"

/* A socket, by its number. */
struct connection {
	uint32_t number;
	uint8_t tenant;
	struct sockaddr_storage peer;
	socklen_t peer_len; /* 0: not connected */
	struct connection *next;
};

static struct connection *connections;

static struct connection *find(uint32_t number)
{
	struct connection *it = connections;
	while (it && it->number != number)
		it = it->next;
	return it;
}

static void add(const struct weir_nqe *request)
{
	struct connection *it = calloc(1, sizeof *it);
	if (!it) {
		perror("echo");
		exit(1);
	}
	it->number = request->socket;
	it->tenant = request->tenant;
	it->next = connections;
	connections = it;
}

/* Forgets the socket of this number, or, if there is none, all of a tenant. */
static void forget(const uint32_t *number, uint8_t tenant)
{
	struct connection **at = &connections;
	while (*at) {
		struct connection *it = *at;
		if (number ? it->number == *number : it->tenant == tenant) {
			*at = it->next;
			free(it);
		} else {
			at = &it->next;
		}
	}
}

/* Hears of tenants that come and go. */
static void hear(struct weir_nsm *nsm)
{
	struct weir_tenant heard;
	int n;
	while ((n = weir_nsm_hear(nsm, &heard)) > 0)
		if (heard.gone)
			forget(NULL, heard.tenant);
	if (n < 0) {
		fprintf(stderr, "echo: CoreEngine has ended\n");
		exit(0);
	}
}

static struct weir_nqe answer_to(const struct weir_nqe *request, uint8_t operation)
{
	struct weir_nqe answer = { .operation = operation, .queue_set = request->queue_set, .socket = request->socket };
	if (operation == WEIR_RESULT)
		answer.flags = request->operation;
	return answer;
}

/* Sends back what was sent: the tenant's chunk is copied to one that is lent to the socket. */
static void echo(struct weir_nsm *nsm, const struct weir_nqe *request)
{
	const void *from = weir_nsm_payload(nsm, request->tenant, request->offset, request->len);
	struct weir_nqe data = answer_to(request, WEIR_DATA);
	if (from && weir_nsm_lend(nsm, request->tenant, request->socket, &data.offset)) {
		data.len = request->len;
		memcpy(weir_nsm_payload(nsm, request->tenant, data.offset, WEIR_CHUNK_BYTES), from, data.len);
		weir_nsm_answer(nsm, &data);
	}
	/* The tenant's chunk is the tenant's again. A stack would wait for a chunk to lend. */
	struct weir_nqe sent = answer_to(request, WEIR_SENT);
	sent.offset = request->offset;
	sent.len = request->len;
	weir_nsm_answer(nsm, &sent);
}

static void serve(struct weir_nsm *nsm, const struct weir_nqe *request)
{
	struct connection *it = find(request->socket);
	struct weir_nqe result = answer_to(request, WEIR_RESULT);
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(1024), .sin_addr.s_addr = htonl(0xc0000202) };
	switch (request->operation) {
	case WEIR_SOCKET:
		/* That the tenant is there may not have been heard. */
		if (!weir_nsm_knows(nsm, request->tenant))
			hear(nsm);
		add(request);
		return;
	case WEIR_CONNECT:
		if (it)
			it->peer_len = weir_nqe_address(request, &it->peer);
		weir_nqe_set_address(&result, (struct sockaddr *)&own, sizeof own);
		break;
	case WEIR_PEER_ADDRESS:
		if (!it || !it->peer_len || weir_nqe_set_address(&result, (struct sockaddr *)&it->peer, it->peer_len) < 0)
			weir_nqe_set_error(&result, ENOTCONN);
		break;
	case WEIR_SEND:
		echo(nsm, request);
		return;
	case WEIR_CONSUMED:
		weir_nsm_take_back(nsm, request->tenant, request->socket, request->offset);
		return;
	case WEIR_SET_OPTION: /* One that is not known is better set than refused. */
		result.offset = request->offset;
		break;
	case WEIR_GET_OPTION:
		result.offset = request->offset;
		weir_nqe_set_error(&result, EOPNOTSUPP);
		break;
	case WEIR_SHUTDOWN:
		result = answer_to(request, WEIR_END);
		break;
	case WEIR_CLOSE:
		forget(&request->socket, request->tenant);
		weir_nsm_reclaim(nsm, request->tenant, request->socket);
		result = answer_to(request, WEIR_CLOSED);
		break;
	default:
		weir_nqe_set_error(&result, EOPNOTSUPP);
	}
	weir_nsm_answer(nsm, &result);
}

int main(int argc, char **argv)
{
	const char *token = getenv("WEIR_NSM_TOKEN");
	if (argc != 2 || !token) {
		fprintf(stderr, "usage: WEIR_NSM_TOKEN=TOKEN echo DOOR\n");
		return 2;
	}
	struct weir_nsm *nsm = weir_nsm_join(argv[1], token);
	if (!nsm) {
		perror(argv[1]);
		return 1;
	}
	for (;;) {
		struct weir_nqe request;
		int n;
		bool busy = false;
		while ((n = weir_nsm_request(nsm, &request)) > 0) {
			serve(nsm, &request);
			busy = true;
		}
		if (n < 0) {
			perror("echo");
			return 1;
		}
		weir_nsm_flush(nsm);
		/* A request that comes from here on wakes it, or keeps it from sleeping. */
		if (!busy && weir_nsm_sleep(nsm)) {
			struct pollfd polled[] = {
				{ .fd = weir_nsm_waker(nsm), .events = POLLIN },
				{ .fd = weir_nsm_control(nsm), .events = POLLIN },
			};
			poll(polled, 2, -1);
			weir_nsm_awake(nsm);
			if (polled[1].revents)
				hear(nsm);
		}
	}
}
