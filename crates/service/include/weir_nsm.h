/*
 * ServiceLib: the side of CoreEngine that a network stack module (NSM) has.
 *
 * An NSM joins with its token. It waits on weir_nsm_waker() and weir_nsm_control() beside what its stack
 * waits for, and then
 *
 *   1. hears of tenants that come and go (weir_nsm_hear);
 *   2. takes requests (weir_nsm_request), does them in its stack, and answers as the comments at the
 *      operations say (weir_nsm_answer);
 *   3. for bytes that its stack has received, lends a chunk to the socket (weir_nsm_lend), writes them there
 *      (weir_nsm_payload), and answers with WEIR_DATA;
 *   4. publishes the answers (weir_nsm_flush), and waits only if weir_nsm_sleep() says so.
 *
 * An NSM is used by one thread at a time. Link libweir_nsm.a or libweir_nsm.so.
 */
#ifndef WEIR_NSM_H
#define WEIR_NSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a chunk. Payload lies inside one chunk. */
#define WEIR_CHUNK_BYTES 8192
/* Most chunks that a socket may have at a time. */
#define WEIR_RECEIVE_WINDOW 64
/* Bit of a connection's number that the NSM has chosen; others are CoreEngine's. */
#define WEIR_CHOSEN_BY_NSM 0x80000000u

/* A queue element: a request, the answer to one, or an event. */
struct weir_nqe {
	uint8_t operation;
	uint8_t tenant;    /* whose socket it is; CoreEngine sets it in requests, and ignores it in answers */
	uint8_t queue_set; /* of an answer: that of the request */
	uint8_t flags;     /* of WEIR_RESULT: the operation that it answers */
	uint32_t socket;   /* by its number at this NSM */
	uint64_t data;     /* as the operation has it */
	uint64_t offset;    /* where the payload starts */
	uint32_t len;      /* bytes of payload */
	uint32_t extra;    /* use weir_nqe_error, weir_nqe_address, weir_nqe_family */
};

/*
 * Requests. "Answered" ones are answered by one WEIR_RESULT each, in the order of the requests of one
 * socket. A chunk is the offset and the length of a payload.
 */
/* Makes a socket. Data: WEIR_STREAM or WEIR_DATAGRAM_TYPE. Answered only if it fails. */
#define WEIR_SOCKET 1
/* Binds to the address. Answered, with the address that the socket has now. */
#define WEIR_BIND 2
/* Listens. Data: the backlog. Answered, with the local address. */
#define WEIR_LISTEN 3
/* Connects to the address. Answered when the connection stands or has failed, with the local address. */
#define WEIR_CONNECT 4
/* Takes the connection of a WEIR_INCOMING as the socket. Answered only if it fails. */
#define WEIR_ACCEPT 5
/* Sends the chunk. Answered by WEIR_SENT. */
#define WEIR_SEND 6
/* Sends a datagram: the chunk has a head of WEIR_DATAGRAM_HEAD bytes, then the payload. By WEIR_SENT. */
#define WEIR_SEND_TO 7
/* Gives the chunk of a WEIR_DATA or WEIR_DATAGRAM back: weir_nsm_take_back. Not answered. */
#define WEIR_CONSUMED 8
/* Shuts down. Data: 0 reading, 1 writing, 2 both. Not answered. */
#define WEIR_SHUTDOWN 9
/* Sets an option. Data: level in the upper, name in the lower 32 bits; the value is in the chunk.
 * Answered; the result has the chunk's offset. */
#define WEIR_SET_OPTION 10
/* Reads an option. The value is written to the chunk, at most len bytes; the result has its length. */
#define WEIR_GET_OPTION 11
/* Asks for the local, or the peer's address. Answered with it. */
#define WEIR_LOCAL_ADDRESS 12
#define WEIR_PEER_ADDRESS 13
/* Closes: what was sent before goes out, weir_nsm_reclaim. Answered by WEIR_CLOSED. */
#define WEIR_CLOSE 14

/* Answers and events. */
/* Answers the operation in flags. */
#define WEIR_RESULT 64
/* A listening socket has a connection: len, a number with WEIR_CHOSEN_BY_NSM; the address is the peer's. */
#define WEIR_INCOMING 65
/* Bytes have arrived: the chunk. */
#define WEIR_DATA 66
/* A datagram has arrived: the chunk, as of WEIR_SEND_TO. */
#define WEIR_DATAGRAM 67
/* The peer sends no more. */
#define WEIR_END 68
/* Gives the chunk of a WEIR_SEND or WEIR_SEND_TO back. */
#define WEIR_SENT 69
/* The connection is broken by the error. */
#define WEIR_FAILED 70
/* The last element of a socket. */
#define WEIR_CLOSED 71

/* Types of WEIR_SOCKET. */
#define WEIR_STREAM 1
#define WEIR_DATAGRAM_TYPE 2
/* Flag of a WEIR_SEND: more follows at once. */
#define WEIR_MORE 1
/* Flag of a WEIR_SOCKET: it stands for one that this NSM had before it was restarted. */
#define WEIR_RESTORED 2
/* Bytes before a datagram's payload. */
#define WEIR_DATAGRAM_HEAD 64

/* The error of an element, by its errno; 0: none. */
int weir_nqe_error(const struct weir_nqe *);
void weir_nqe_set_error(struct weir_nqe *, int error);

/* Writes the address of an element; returns its length, 0 if there is none. */
socklen_t weir_nqe_address(const struct weir_nqe *, struct sockaddr_storage *to);
/* Sets the address: it takes data, offset and len. Returns -1 if it is not one of IPv4 or IPv6. */
int weir_nqe_set_address(struct weir_nqe *, const struct sockaddr *from, socklen_t len);

/* The address family of an element: 4, 6, or another value for none. */
static inline unsigned weir_nqe_family(const struct weir_nqe *nqe) { return nqe->extra >> 28; }

/* A connection to CoreEngine. */
struct weir_nsm;

/*
 * Joins CoreEngine at its socket. The token has 32 hexadecimal digits. NULL, with errno: EACCES if
 * CoreEngine knows no such NSM, EBUSY if it runs already, EINVAL for what is no token, or what connect(2)
 * says.
 */
struct weir_nsm *weir_nsm_join(const char *door, const char *token);
void weir_nsm_leave(struct weir_nsm *);

/* Descriptors to wait on: requests wait; a tenant comes or goes, or CoreEngine has ended. */
int weir_nsm_waker(const struct weir_nsm *);
int weir_nsm_control(const struct weir_nsm *);

/* A tenant that comes, or is gone with all its sockets. */
struct weir_tenant {
	uint8_t tenant;
	bool gone;
};

/* Hears of the next tenant that comes or goes: 1, 0 if there is none now, -1 with errno at the end. */
int weir_nsm_hear(struct weir_nsm *, struct weir_tenant *to);
/* Whether a tenant has been heard of. Its first request may be there before: then hear. */
bool weir_nsm_knows(const struct weir_nsm *, uint8_t tenant);

/* Takes the next request: 1, 0 if there is none now, -1 with errno if CoreEngine cannot be believed. */
int weir_nsm_request(struct weir_nsm *, struct weir_nqe *to);
/* Submits an answer or an event. */
void weir_nsm_answer(struct weir_nsm *, const struct weir_nqe *);
/* Publishes the answers. */
void weir_nsm_flush(struct weir_nsm *);

/* Announces that the NSM is about to wait; false: do not, there are requests. */
bool weir_nsm_sleep(struct weir_nsm *);
/* Ends what weir_nsm_sleep began. */
void weir_nsm_awake(struct weir_nsm *);

/*
 * A tenant's payload; NULL if it is not inside one chunk. The tenant can write it at any time: read each
 * byte once, and check the copy.
 */
void *weir_nsm_payload(const struct weir_nsm *, uint8_t tenant, uint64_t offset, uint32_t len);
/* Lends a chunk of the tenant's to a socket, to receive into; false: there is none until a WEIR_CONSUMED. */
bool weir_nsm_lend(struct weir_nsm *, uint8_t tenant, uint32_t socket, uint64_t *offset);
/* Takes back a chunk; false: it was not lent to the socket. */
bool weir_nsm_take_back(struct weir_nsm *, uint8_t tenant, uint32_t socket, uint64_t offset);
/* Takes back all chunks that are lent to a socket; returns how many. */
size_t weir_nsm_reclaim(struct weir_nsm *, uint8_t tenant, uint32_t socket);

#ifdef __cplusplus
}
#endif

#endif
