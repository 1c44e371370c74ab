/* conform - what every carrier promises, as one suite: a row says how to reach a carrier,
 * CONFORM_SUITE(noun, row) makes a test of each case for it.
 *
 * A carrier with a row of its own: fill a struct conform_row and write CONFORM_SUITE(name, &row) in
 * NAME_test.c. All is opened through lend_io_open(), so a row is an address and what the carrier
 * does not claim to do.
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
	bool lossless;    /* all arrives, in order, and a full peer answers LEND_SENT_FULL */
	bool hangs_up;    /* a peer's close arrives as gone */
	bool rebinds;     /* a closed listener's address is free at once */
	bool threads;     /* the ends may be in different threads */
	uint32_t clients; /* that a listener can have at once; the suite uses up to 40 */
	bool both;        /* a listener can resolve another listener and itself */
};

void conform_content(const struct conform_row *row);
void conform_edges(const struct conform_row *row);
void conform_pieces(const struct conform_row *row);
void conform_full(const struct conform_row *row);
void conform_stopped_peer(const struct conform_row *row);
void conform_flush(const struct conform_row *row);
void conform_unknown_sender(const struct conform_row *row);
void conform_clients(const struct conform_row *row);
void conform_both_ends(const struct conform_row *row);
void conform_close_in_flight(const struct conform_row *row);
void conform_restart(const struct conform_row *row);
void conform_ping_pong(const struct conform_row *row);
void conform_wait(const struct conform_row *row);
void conform_wait_for_room(const struct conform_row *row);

#define CONFORM_CASE(suite, row, noun)                                                             \
	Test(suite, noun, .timeout = 60)                                                           \
	{                                                                                          \
		conform_##noun(row);                                                               \
	}
#define CONFORM_SUITE(suite, row)                                                                  \
	CONFORM_CASE(suite, row, content)                                                          \
	CONFORM_CASE(suite, row, edges)                                                            \
	CONFORM_CASE(suite, row, pieces)                                                           \
	CONFORM_CASE(suite, row, full)                                                             \
	CONFORM_CASE(suite, row, stopped_peer)                                                     \
	CONFORM_CASE(suite, row, flush)                                                            \
	CONFORM_CASE(suite, row, unknown_sender)                                                   \
	CONFORM_CASE(suite, row, clients)                                                          \
	CONFORM_CASE(suite, row, both_ends)                                                        \
	CONFORM_CASE(suite, row, close_in_flight)                                                  \
	CONFORM_CASE(suite, row, restart)                                                          \
	CONFORM_CASE(suite, row, ping_pong)                                                        \
	CONFORM_CASE(suite, row, wait)                                                             \
	CONFORM_CASE(suite, row, wait_for_room)

/* Helpers for the cases and for a carrier's own tests. */

struct conform_pair {
	const struct conform_row *row;
	struct lend_io *server, *client;
	uint32_t peer;     /* the server, as the client names it */
	char address[104]; /* the server's */
	uint64_t seed;
};

/* Skips the running test where the carrier is absent. */
void conform_need(const struct conform_row *row);
struct lend_io *conform_listen(const struct conform_row *row, char address[104]);
struct lend_io *conform_client(const char *address);
/* Asks until the address is known, turning the other end meanwhile (NULL: none). */
uint32_t conform_resolve(struct lend_io *from, const char *address, struct lend_io *other);
void conform_open(struct conform_pair *pair, const struct conform_row *row);
void conform_close(struct conform_pair *pair);

/* Sends one test datagram of len >= 16 bytes: id and seq in its head, bytes that follow from them
 * behind. */
enum lend_sent conform_send(struct lend_io *io, uint32_t peer, uint32_t id, uint32_t seq,
			    uint32_t len);
/* Is it one of ours, whole and unchanged? Then its id and seq. */
bool conform_check(const struct lend_in *in, uint32_t *id, uint32_t *seq);
/* Receives without waiting, checks every datagram and calls seen (may be NULL); returns how many,
 * gone ones too. */
typedef void conform_seen(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq);
uint32_t conform_take(struct lend_io *io, conform_seen *seen, void *arg);
/* Milliseconds of a monotonic clock. */
uint64_t conform_ms(void);

#endif
