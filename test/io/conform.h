/* conform - what every carrier promises, as one suite: a row says how to reach a carrier,
 * CONFORM_SUITE(noun, row) makes a test of each case for it.
 *
 * A carrier with a row of its own: fill a struct conform_row and write CONFORM_SUITE(name, &row) in
 * NAME_test.c. All is opened through lend_io_open(), so a row is an address and what the carrier
 * does not claim to do. scripts/conform.sh makes a table of all suites that have these cases: a
 * suite's name is the carrier's there, and a skip's reason is shown.
 */
#ifndef LEND_TEST_IO_CONFORM_H
#define LEND_TEST_IO_CONFORM_H

#include <criterion/criterion.h>

#include "io/io.h"

struct conform_row {
	const char *name;
	/* NULL: here; else why not on this machine: the cases are skipped with that reason. May
	 * itself be NULL. */
	const char *(*absent)(void);
	/* Writes an address to listen at, never given before by this process or another. */
	void (*address)(char *text, size_t cap);
	/* Where a link has two ends that are not alike (a device each): an address at the other
	 * one, and how that end writes an address which this end gave. NULL: both are alike. */
	void (*far)(char *text, size_t cap);
	void (*across)(const char *address, char *text, size_t cap);
	/* Puts something between the suite and each carrier that was opened. May be NULL. */
	struct lend_io *(*wrap)(struct lend_io *io);
	bool lossless;    /* all arrives, in order, and a full peer answers LEND_SENT_FULL */
	bool hangs_up;    /* a peer's close arrives as gone */
	bool rebinds;     /* a closed listener's address is free at once */
	bool threads;     /* the ends may be in different threads */
	bool counts;      /* what it loses on a full way is in rx_missed, exactly */
	uint32_t clients; /* that a listener can have at once; the suite uses up to 40 */
	bool both;        /* a listener can resolve another listener and itself */
	bool one_way;     /* to all peers: while it is full nobody is reached */
	bool passes;      /* what is fast passes by what is not, and its way has room of its own */
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
void conform_stopped_peer(const struct conform_row *row);
void conform_unknown_sender(const struct conform_row *row);
void conform_clients(const struct conform_row *row);
void conform_both_ends(const struct conform_row *row);
void conform_ping_pong(const struct conform_row *row);
void conform_urgent(const struct conform_row *row);

/* $LEND_CONFORM_SLEEPS may ask for so many sleeps that the two cases about waiting take minutes.
 * All have one timeout: Criterion leaks a record when cases of different ones run at once. */
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
	CONFORM_CASE(suite, row, stopped_peer)                                                     \
	CONFORM_CASE(suite, row, unknown_sender)                                                   \
	CONFORM_CASE(suite, row, clients)                                                          \
	CONFORM_CASE(suite, row, both_ends)                                                        \
	CONFORM_CASE(suite, row, ping_pong)                                                        \
	CONFORM_CASE(suite, row, urgent)

/* Helpers for the cases and for a carrier's own tests. */

struct conform_pair {
	const struct conform_row *row;
	struct lend_io *server, *client;
	uint32_t peer;     /* the server, as the client names it */
	char address[104]; /* the server's */
	uint64_t seed;
};

/* $SEED, which replays what a failure printed, or another one each time. */
uint64_t conform_seed(void);
/* Skips the running test where the carrier is absent. */
void conform_need(const struct conform_row *row);
/* The address of a listener as the link's other end writes it. */
void conform_name(const struct conform_row *row, struct lend_io *io, char address[104]);
/* Listens at this end of the link; address: as the other end writes it. */
struct lend_io *conform_listen(const struct conform_row *row, char address[104]);
/* The same at the other end. */
struct lend_io *conform_listen_far(const struct conform_row *row, char address[104]);
struct lend_io *conform_client(const char *address);
/* The same for the cases: with what the row puts between. */
struct lend_io *conform_caller(const struct conform_row *row, const char *address);
struct lend_io *conform_open_as(const struct conform_row *row, const struct lend_io_config *config);
/* Asks until the address is known, turning the other end meanwhile (NULL: none). */
uint32_t conform_resolve(struct lend_io *from, const char *address, struct lend_io *other);
void conform_open(struct conform_pair *pair, const struct conform_row *row);
void conform_close(struct conform_pair *pair);

enum { CONFORM_MAGIC = 0x4c454e44 };
/* Sends one test datagram of len >= 16 bytes: id and seq in its head, bytes that follow from them
 * behind. */
enum lend_sent conform_send(struct lend_io *io, uint32_t peer, uint32_t id, uint32_t seq,
			    uint32_t len);
/* The same as what is most urgent, which may pass by others. */
enum lend_sent conform_send_fast(struct lend_io *io, uint32_t peer, uint32_t id, uint32_t seq,
				 uint32_t len);
/* Sends n of them, of the lengths in len, in one burst from seq on; how many were sent: the first
 * ones. */
enum { CONFORM_BURST = 64 };
uint32_t conform_burst(struct lend_io *io, uint32_t peer, uint32_t seq, const uint32_t *len,
		       uint32_t n);
/* Is it one of ours, whole and unchanged? Then its id and seq. */
bool conform_check(const struct lend_in *in, uint32_t *id, uint32_t *seq);
/* Receives without waiting, checks every datagram and calls seen (may be NULL); returns how many,
 * gone ones too. */
typedef void conform_seen(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq);
uint32_t conform_take(struct lend_io *io, conform_seen *seen, void *arg);
/* Takes one datagram, which must be these bytes. */
void conform_expect(struct lend_io *io, const void *want, uint32_t len);

/* Who counts what comes: each seq at most once and only if it was sent; over what is lossless, or
 * where ordered is set, in order. */
enum { CONFORM_SEQS = 200000 };
struct conform_tally {
	const struct conform_row *row;
	uint64_t seed; /* of the case, for messages */
	bool ordered;
	uint32_t lost_ms; /* after which a datagram that has not come is lost; 0: 200 */
	uint32_t sent;    /* seqs below this were sent */
	uint32_t next;    /* no seq below comes any more; lossless: the one that must come */
	uint32_t count;
	uint32_t gone;
	uint8_t mark[CONFORM_SEQS];
};
/* Receives until want came in all, or for what may lose: until nothing has come for a while. */
void conform_settle(struct lend_io *io, struct conform_tally *tally, uint32_t want);
/* Sends until the carrier says full, at most as many in all; true: it said full. */
bool conform_fill(struct lend_io *io, uint32_t peer, struct conform_tally *tally, uint32_t most);
/* How long a case waits for what must come. */
extern uint64_t conform_patience_ms;
/* Milliseconds of a monotonic clock. */
uint64_t conform_ms(void);

#endif
