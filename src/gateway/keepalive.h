/* keepalive - PINGs that find dead connections, and the limit of those that clients send: gRPC's
 * proposals A8 and A9.
 *
 * Layer: gateway. Threads: the endpoint's. */
#ifndef LEND_GATEWAY_KEEPALIVE_H
#define LEND_GATEWAY_KEEPALIVE_H

#include "gateway/connection.h"

/* Debug data of the GOAWAY to a client that sends too many PINGs. */
#define H2_TOO_MANY_PINGS "too_many_pings"

/* Times of an end of a connection. */
struct h2_keepalive {
	lend_ns every;   /* silence of the peer before a PING; LEND_NEVER: none */
	lend_ns timeout; /* for its answer */
	lend_ns min;     /* between the peer's PINGs; 0: 5 min, and 2 h while no stream is open */
};

/* PINGs of the peer since HEADERS or DATA were last sent to it. */
struct h2_pings {
	lend_ns last;     /* 0: none */
	unsigned strikes; /* those that came too early */
};

/* Limits of a client's connection; LEND_NEVER: none. */
struct h2_lifetime {
	lend_ns idle;  /* without a request */
	lend_ns age;   /* since its start, with 10 % of jitter */
	lend_ns grace; /* after the age, for requests in progress */
};

/* Sets gRPC's times. every: its default at this end. */
void h2_keepalive_init(struct h2_keepalive *k, lend_ns every);
/* Reads "keepalive=SECONDS" or "keepalive_timeout=SECONDS"; fractions are permitted. Returns
 * whether it was one of these, and valid. */
bool h2_keepalive_read(struct h2_keepalive *k, const char *parameter);
/* Reads a number of seconds behind a name and '='. Returns whether it has the name, and is valid.
 */
bool h2_seconds_read(const char *parameter, const char *name, lend_ns *time);
/* Reads "max_idle=SECONDS", "max_age=SECONDS" or "max_age_grace=SECONDS". Returns whether it was
 * one of these, and valid. */
bool h2_lifetime_read(struct h2_lifetime *l, const char *parameter);
/* Submits a PING after a silence. Returns when to call again; 0: it was not answered in time. */
lend_ns h2_keepalive_next(struct h2_connection *c, const struct h2_keepalive *k);
/* Counts a PING of a client. The third one that comes too early begins to end the connection. */
void h2_ping_count(struct h2_connection *c, const struct h2_keepalive *k, struct h2_pings *pings);

#endif
