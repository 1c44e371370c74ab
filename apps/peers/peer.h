/* peer - the part that all programs of the comparison share: one client and one server on a CPU
 * each, the same requests, the same answers, the same clock.
 *
 * A program implements seven functions with one library; main() in peer.c calls them. The server is
 * a child process, forked before the library is initialised. On a lane within one thread it is
 * polled alternately with the client instead. Requests carry app_pattern(). The server answers each
 * request with its bytes, or with peer_sum's 8 bytes; the client compares the answer with the
 * expected one. Layer: apps/peers. Threads: one per process, and the library's own. */
#ifndef APPS_PEERS_PEER_H
#define APPS_PEERS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PEER_SUM_LEN = 8, PEER_ADDRESS_MAX = 4096, PEER_WINDOW_MAX = 128, PEER_LANES_MAX = 20 };

/* The parameters of one run, the same for both sides. */
struct peer_job {
	const char *lane;
	uint64_t request;  /* bytes of each request */
	uint64_t reply;    /* bytes of each answer: request (an echo), or PEER_SUM_LEN */
	unsigned window;   /* requests kept in flight; slots are [0, window) */
	unsigned sessions; /* connections that the requests use in turns */
	bool ends;         /* the sum reads the first and last 4 KiB only, not every byte */
	bool sleep;        /* both ends sleep while they wait, instead of polling */
	bool rewrite; /* the client writes the bytes of each request again: all, or both ends */
};

static inline bool peer_is_echo(const struct peer_job *job)
{
	return job->reply == job->request;
}

/* A channel between both sides for addresses and results, used before and after the run; at most
 * PEER_ADDRESS_MAX bytes per message. Without a second process the message waits in memory.
 * app_die() when the other process has ended. */
struct peer_pipe;
void peer_send_text(struct peer_pipe *channel, const void *bytes, size_t len);
/* Receives a message; returns its length in bytes. */
size_t peer_receive_text(struct peer_pipe *channel, void *bytes, size_t cap);

/* Answers one request, given as parts, as the server. Not an echo: fills reply[0, PEER_SUM_LEN). An
 * echo passes reply NULL, and the library sends the parts back. Counts the request. */
void peer_serve(const struct peer_job *job, const struct iovec *part, unsigned parts, void *reply);
/* Ends the request of slot, answered with these bytes, as the client. The next request may start
 * before this returns. */
void peer_end(unsigned slot, const struct iovec *part, unsigned parts);
/* Like peer_end(), with one part. */
void peer_end_at(unsigned slot, const void *bytes, size_t len);

/* A lane: a carrier or mode of a library. */
struct peer_lane {
	const char *name;      /* NULL ends the list */
	uint64_t len_max;      /* bytes of the longest request; 0: any */
	unsigned window_max;   /* 0: any */
	bool one_thread;       /* server and client in one thread */
	bool server_first;     /* the server closes before the client, whose end frees memory that
				  the server polls */
	unsigned sessions_max; /* 0: one */
	bool to_all;           /* each request goes to all sessions, and is served as often */
};

/* A library: its description; each program defines one, and the functions below. */
struct peer {
	const char *name;
	struct peer_lane lane[PEER_LANES_MAX];
	bool pin_first; /* the library's threads do the work, so they are pinned with their process;
			   else only the polling thread is pinned, after the library has started its
			   own */
};
extern const struct peer peer_this;

/* The functions of each program; on an error they call app_die(). Each side is opened once: in its
 * own process, or the server and then the client in one thread. A turn does the pending work, and
 * may wait for work where the library waits. */
void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel);
void peer_server_turn(void *server);
void peer_server_close(void *server);
void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel);
/* Returns where the bytes of the next request of slot are to be written, if the library passes
 * memory of its own without a copy; else NULL. Only with job->rewrite; optional. */
void *peer_client_place(void *client, unsigned slot);
/* Starts a request; the bytes must not change meanwhile. Returns 0, or a negative errno; -EAGAIN:
 * retried after a turn. Never calls peer_end() itself. */
int peer_client_start(void *client, unsigned slot, const void *request);
void peer_client_turn(void *client);
void peer_client_close(void *client);
/* Where both sides take the same turns, or close alike, the program has these instead. */
void peer_turn(void *side);
void peer_close(void *side);

#ifdef __cplusplus
}
#endif

#endif
