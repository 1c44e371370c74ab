/* channel - channels whose calls Lend may carry: those to one HOST:PORT, without credentials.
 *
 * A call to a port P of this host tries the address shm:grpc-P; without an endpoint there, and to
 * other hosts, udp:HOST:P. Without a native peer gRPC carries the calls, and Lend tries again after
 * a time. Layer: preload. Threads: any; session and times are used inside engine_enter(). */
#ifndef LEND_PRELOAD_CHANNEL_H
#define LEND_PRELOAD_CHANNEL_H

#include "preload/engine.h"
#include "preload/real.h"
#include "preload/records.h"

struct channel {
	struct table_node node;
	char host[256];
	unsigned port;
	bool local;                /* the host is this one */
	int receive_max, send_max; /* bytes of a message; -1: any */
	lend_session session;
	bool open, up; /* a session; it is up, or within this host */
	lend_ns retry_at,
	    retry_ns;         /* without a native peer: the next attempt, and the pause after it */
	unsigned refs;        /* the program's, and one of each call */
	struct carried *idle; /* calls that serve again */
	unsigned n_idle;
	bool closed; /* by the program */
};

/* The endpoint of all native calls. */
extern struct engine channel_engine;

struct channel *channel_find(grpc_channel *channel);
/* Inside engine_enter(): returns a session to the native peer. False: there is none. */
bool channel_session(struct channel *c, lend_session *session);
void channel_unref(struct channel *c);
/* Splits "HOST:PORT", "dns:///HOST:PORT", "ipv4:HOST:PORT". False: another form. */
bool channel_split(const char *target, char *host, size_t cap, unsigned *port);

#endif
