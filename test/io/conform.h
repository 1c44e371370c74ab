/* conform - the promises of every carrier, as one test suite.
 *
 * A row (struct conform_row) describes a carrier. CONFORM_SUITE(noun, row) makes one test of each
 * case for it. To test another carrier, fill a row and write CONFORM_SUITE(name, &row) in
 * NAME_test.c. Carriers are opened through lend_io_open() only, so a row is an address and a list
 * of further properties. scripts/conform.sh prints a table of all suites with these cases. There
 * the suite's name stands for the carrier, and the reason of a skipped case is shown. Layer: test.
 */
#ifndef LEND_TEST_IO_CONFORM_H
#define LEND_TEST_IO_CONFORM_H

#include <criterion/criterion.h>

#include "io/io.h"

struct conform_row {
	const char *name;
	/* Returns NULL when this machine has the carrier, else the reason why not: the cases are
	 * skipped with it. May be NULL. */
	const char *(*absent)(void);
	/* Writes a fresh address to listen at, which no process has used before. */
	void (*address)(char *text, size_t cap);
	/* For a link with two different ends (a device each). far: writes an address at the other
	 * end. across: writes the form in which the other end must name an address of this end.
	 * NULL: both ends are alike. */
	void (*far)(char *text, size_t cap);
	void (*across)(const char *address, char *text, size_t cap);
	/* Wraps each carrier that was opened, such as in a capture. May be NULL. */
	struct lend_io *(*wrap)(struct lend_io *io);
	bool rebinds;     /* the address of a closed listener is free at once */
	bool threads;     /* the ends may be in different threads */
	bool counts;      /* rx_missed is the exact number of datagrams lost to overflow */
	uint32_t clients; /* maximum number of clients per listener; the suite uses up to 40 */
	bool both;        /* a listener can resolve another listener and itself */
	bool one_way;     /* one queue for all peers: while it is full, no peer is reached */
};

void conform_order(const struct conform_row *row);
void conform_loss(const struct conform_row *row);
void conform_duplicates(const struct conform_row *row);
void conform_back_pressure(const struct conform_row *row);
void conform_zero_length(const struct conform_row *row);
void conform_mtu(const struct conform_row *row);
void conform_mtu_plus_1(const struct conform_row *row);
void conform_flush(const struct conform_row *row);
void conform_close_in_flight(const struct conform_row *row);
void conform_restart(const struct conform_row *row);
void conform_wait(const struct conform_row *row);
void conform_wait_for_room(const struct conform_row *row);
void conform_content(const struct conform_row *row);
void conform_pieces(const struct conform_row *row);
void conform_long_head(const struct conform_row *row);
void conform_stopped_peer(const struct conform_row *row);
void conform_unknown_sender(const struct conform_row *row);
void conform_clients(const struct conform_row *row);
void conform_both_ends(const struct conform_row *row);
void conform_ping_pong(const struct conform_row *row);
void conform_urgent(const struct conform_row *row);
void conform_traits(const struct conform_row *row);

/* Defines one test. All have the same timeout, because Criterion leaks a record when tests with
 * different timeouts run at once. It is long, because $LEND_CONFORM_SLEEPS may make the two cases
 * about sleeping take minutes. */
#define CONFORM_CASE(suite, row, noun)                                                             \
	Test(suite, noun, .timeout = 600)                                                          \
	{                                                                                          \
		conform_##noun(row);                                                               \
	}
#define CONFORM_SUITE(suite, row)                                                                  \
	CONFORM_CASE(suite, row, order)                                                            \
	CONFORM_CASE(suite, row, loss)                                                             \
	CONFORM_CASE(suite, row, duplicates)                                                       \
	CONFORM_CASE(suite, row, back_pressure)                                                    \
	CONFORM_CASE(suite, row, zero_length)                                                      \
	CONFORM_CASE(suite, row, mtu)                                                              \
	CONFORM_CASE(suite, row, mtu_plus_1)                                                       \
	CONFORM_CASE(suite, row, flush)                                                            \
	CONFORM_CASE(suite, row, close_in_flight)                                                  \
	CONFORM_CASE(suite, row, restart)                                                          \
	CONFORM_CASE(suite, row, wait)                                                             \
	CONFORM_CASE(suite, row, wait_for_room)                                                    \
	CONFORM_CASE(suite, row, content)                                                          \
	CONFORM_CASE(suite, row, pieces)                                                           \
	CONFORM_CASE(suite, row, long_head)                                                        \
	CONFORM_CASE(suite, row, stopped_peer)                                                     \
	CONFORM_CASE(suite, row, unknown_sender)                                                   \
	CONFORM_CASE(suite, row, clients)                                                          \
	CONFORM_CASE(suite, row, both_ends)                                                        \
	CONFORM_CASE(suite, row, ping_pong)                                                        \
	CONFORM_CASE(suite, row, urgent)                                                           \
	CONFORM_CASE(suite, row, traits)

/* Helpers for the cases and for a carrier's own tests. */

struct conform_pair {
	const struct conform_row *row;
	struct lend_io *server, *client;
	uint32_t peer;     /* index of the server at the client */
	char address[104]; /* address of the server */
	uint64_t seed;
};

/* Returns $SEED, which replays a failure, or a random seed. */
uint64_t conform_seed(void);
/* Write an address for a row: a fresh name of shared memory; any UDP port of the loopback. */
void conform_shm_address(char *text, size_t cap);
void conform_udp_address(char *text, size_t cap);
/* Returns whether the table of carriers lists a trait of the carrier: a lossless one delivers in
 * order and refuses with LEND_SENT_FULL, one that hangs up reports a close as a gone notice. */
bool conform_has(const struct conform_row *row, uint32_t trait);
/* Skips the running test where the carrier is absent. */
void conform_need(const struct conform_row *row);
/* Writes the address of a listener in the form that the other end of the link uses. */
void conform_name(const struct conform_row *row, struct lend_io *io, char address[104]);
/* Listens at this end of the link. address: in the form that the other end uses. */
struct lend_io *conform_listen(const struct conform_row *row, char address[104]);
/* Listens at the other end of the link. */
struct lend_io *conform_listen_far(const struct conform_row *row, char address[104]);
struct lend_io *conform_client(const char *address);
/* Open a client for the cases, wrapped according to the row. */
struct lend_io *conform_caller(const struct conform_row *row, const char *address);
struct lend_io *conform_open_as(const struct conform_row *row, const struct lend_io_config *config);
/* Retries until the address is resolved. Polls the other end meanwhile, unless it is NULL. */
uint32_t conform_resolve(struct lend_io *from, const char *address, struct lend_io *other);
void conform_open(struct conform_pair *pair, const struct conform_row *row);
void conform_close(struct conform_pair *pair);

enum { CONFORM_MAGIC = 0x4c454e44 };
/* Sends one test datagram of len >= 16 bytes: id and seq in its header, then bytes that are a
 * function of both. */
enum lend_sent conform_send(struct lend_io *io, uint32_t peer, uint32_t id, uint32_t seq,
			    uint32_t len);
/* Sends the same with the most urgent class. It may overtake others. */
enum lend_sent conform_send_fast(struct lend_io *io, uint32_t peer, uint32_t id, uint32_t seq,
				 uint32_t len);
/* Sends n of them in one burst, with the lengths in len and consecutive seqs. Returns how many were
 * sent, counted from the first. */
enum { CONFORM_BURST = 64 };
uint32_t conform_burst(struct lend_io *io, uint32_t peer, uint32_t seq, const uint32_t *len,
		       uint32_t n);
/* True when it is a test datagram, complete and unchanged. Sets its id and seq. */
bool conform_check(const struct lend_in *in, uint32_t *id, uint32_t *seq);
/* Receives without waiting, checks each datagram and calls seen (may be NULL). Returns the number
 * of datagrams and gone notices. */
typedef void conform_seen(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq);
uint32_t conform_take(struct lend_io *io, conform_seen *seen, void *arg);
/* Receives one datagram and compares it with want. */
void conform_expect(struct lend_io *io, const void *want, uint32_t len);

/* Checks of received datagrams: each seq at most once, and only if it was sent. In order too, if
 * the carrier is lossless or ordered is set. */
enum { CONFORM_SEQS = 200000 };
struct conform_tally {
	const struct conform_row *row;
	uint64_t seed; /* seed of the case, for messages */
	bool ordered;
	uint32_t lost_ms; /* a datagram that has not arrived after this time is lost; 0: 200 */
	uint32_t sent;    /* all seqs below this were sent */
	uint32_t
	    next; /* no lower seq may arrive any more; lossless: the seq that must arrive next */
	uint32_t count;
	uint32_t gone;
	uint8_t mark[CONFORM_SEQS];
};
/* Receives until want datagrams arrived in all; over a lossy carrier, or until none arrived for
 * lost_ms. */
void conform_settle(struct lend_io *io, struct conform_tally *tally, uint32_t want);
/* Sends up to most datagrams, until the carrier is full. True when it was full. */
bool conform_fill(struct lend_io *io, uint32_t peer, struct conform_tally *tally, uint32_t most);
/* How long a case waits for an event that must happen. */
extern uint64_t conform_patience_ms;
/* Milliseconds of a monotonic clock. */
uint64_t conform_ms(void);

#endif
