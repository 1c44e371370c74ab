/* peer - what every program of the comparison shares: one client and one server on a core each, the
 * same requests, the same answers, the same clock.
 *
 * A program is seven functions over one library, which peer.c's main() calls. The server is a
 * child, forked before the library is touched, or, where a lane does not leave its thread, turned
 * alternately with the client. What is sent is app_pattern(); the server answers each request with
 * its bytes, or with peer_sum's 8 bytes, which the client compares with what it knows. Layer:
 * apps/peers. Threads: one per process, and the library's own. */
#ifndef APPS_PEERS_PEER_H
#define APPS_PEERS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PEER_SUM_LEN = 8, PEER_ADDRESS_MAX = 4096, PEER_WINDOW_MAX = 128, PEER_LANES_MAX = 12 };

/* One run: both sides read the same. */
struct peer_job {
	const char *lane;
	uint64_t request; /* bytes of each request */
	uint64_t reply;   /* bytes of each answer: as many (an echo), or PEER_SUM_LEN */
	unsigned window;  /* requests kept in flight; slots are [0, window) */
	bool ends;        /* the sum reads the first and last 4 KiB only, not every byte */
	bool untuned;     /* the library as it comes, not as its manual says for speed */
};

static inline bool peer_is_echo(const struct peer_job *job)
{
	return job->reply == job->request;
}

/* Between the two processes, before and after the run: addresses, at most PEER_ADDRESS_MAX bytes.
 * Without a second process what is told waits here. app_die() when the other is gone. */
struct peer_door;
void peer_tell(struct peer_door *door, const void *bytes, size_t len);
/* How many bytes it were. */
size_t peer_hear(struct peer_door *door, void *bytes, size_t cap);

/* The server's answer to one request that lies in these parts, out of line where it is not an echo:
 * fills reply[0, PEER_SUM_LEN). Counts what was served; an echo calls it with reply NULL. */
void peer_serve(const struct peer_job *job, const struct iovec *part, unsigned parts, void *reply);
/* The client's: the request of that slot was answered with these bytes; the next one may be started
 * before this returns. */
void peer_end(unsigned slot, const struct iovec *part, unsigned parts);
/* The same with one part. */
void peer_end_at(unsigned slot, const void *bytes, size_t len);

/* What a library goes over. */
struct peer_lane {
	const char *name;    /* NULL ends the list */
	uint64_t len_max;    /* of a request; 0: any */
	unsigned window_max; /* 0: any */
	bool one_thread;     /* server and client in one thread */
};

/* A library: what each program says of its own, and does below. */
struct peer {
	const char *name;
	struct peer_lane lane[PEER_LANES_MAX];
	bool pin_first; /* its threads do the work: they are pinned with their process; else only
			   the thread that polls is, once the library has made its own */
};
extern const struct peer peer_this;

/* A program's own functions; they end it with app_die() where they cannot go on. Of each side one
 * is opened, in the process that is this side alone, or one after the other in one thread. A turn
 * does what there is to do, and may wait for it where the library waits. */
void *peer_server_open(const struct peer_job *job, struct peer_door *door);
void peer_server_turn(void *server);
void peer_server_close(void *server);
void *peer_client_open(const struct peer_job *job, struct peer_door *door);
/* Begins a request; the bytes stay as they are. 0, or a negative errno; -EAGAIN: tried again after
 * a turn. Never calls peer_end() itself. */
int peer_client_start(void *client, unsigned slot, const void *request);
void peer_client_turn(void *client);
void peer_client_close(void *client);

#ifdef __cplusplus
}
#endif

#endif
