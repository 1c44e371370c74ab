/* raw_pair - two raw carriers on one wire of devices made of memory, polled by one thread. Layer:
 * test. */
#ifndef LEND_TEST_IO_RAW_PAIR_H
#define LEND_TEST_IO_RAW_PAIR_H

#include "io/conform.h"
#include "io/raw/fake.h"

extern struct raw_fake *fake; /* controls of the module that raw_set_up() loaded */
void raw_set_up(void);

struct raw_pair {
	struct lend_io *a, *b; /* b listens at 10.77.0.1; a is its client at 10.77.0.2 */
	uint32_t peer;
};
struct lend_io *raw_open(const char *listen);
/* Opens both carriers. keys: suffix of b's address when a resolves it. */
struct raw_pair raw_exchange(const char *at, const char *from, const char *keys);
struct raw_pair raw_meet4(void);
/* Closes both. The device must have counted no bug of the carrier. */
void raw_part(struct raw_pair *pair);

struct raw_tally {
	uint32_t n, gone, seq;
};
/* raw_count: a conform_seen that counts. raw_take: receives once without it. */
void raw_count(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq);
void raw_take(struct lend_io *io);
/* Receives until nothing comes. Returns the number of datagrams. */
uint32_t raw_drain(struct lend_io *io);
/* Sends and receives a datagram in each direction. */
void raw_expect_alive(struct raw_pair *pair);

#endif
