/* record - seals the datagrams that leave an endpoint, and opens those that arrive.
 *
 *   core --> lend_records_seal() --> carrier.tx        carrier.rx --> lend_records_open() --> core
 *
 * The layer is between the core, whose datagrams are in clear and without a trailer, and a carrier.
 * On the wire, a datagram of a session with keys has flag LEND_PKT_ENCRYPTED, the low byte of its
 * key's epoch in the top byte of its number, and a tag of 16 bytes behind it. The head is
 * associated data; all that follows it is encrypted (LEND_LEVEL_ENCRYPT) or not
 * (LEND_LEVEL_AUTHENTICATE). The nonce is the key's iv XOR {0 4, number 8}, and each direction of a
 * session has keys of its own. All other datagrams get a CRC32C in 16 bytes, unless the carrier
 * detects corruption.
 *
 * Each direction takes new keys by itself, after limits.epoch_datagrams or limits.epoch_ns, when
 * the peer has acknowledged a datagram under the present ones. A receiver accepts the present
 * epoch, the next one, and for limits.previous_ns the one before.
 *
 * Layer: seal (pure). Threads: the endpoint's. Its owner provides the memory of keys. */
#ifndef LEND_SEAL_RECORD_H
#define LEND_SEAL_RECORD_H

#include "seal/replay_window.h"
#include "seal/suite.h"
#include "wire/pkt.h"

#define LEND_RECORDS_STATS(X)                                                                      \
	X(sealed, "datagrams sealed")                                                              \
	X(opened, "datagrams opened")                                                              \
	X(epochs, "times that a direction took new keys")                                          \
	X(rx_corrupt, "dropped: wrong CRC32C, or too short for it")                                \
	X(rx_forged, "dropped: wrong tag, or too short for it")                                    \
	X(rx_epoch, "dropped: sealed with keys that are too old or too new")                       \
	X(rx_replayed, "dropped: its number was used before, or is too old")                       \
	X(rx_clear, "dropped: not sealed, of a session or carrier that demands it")                \
	X(rx_refused, "handshake datagrams dropped")                                               \
	X(tx_clear, "not sent: no keys, on a carrier that demands them")

struct lend_records_stats {
#define X(name, text) uint64_t name;
	LEND_RECORDS_STATS(X)
#undef X
};

/* A carrier, as far as its datagrams need protection. */
struct lend_records_path {
	bool checked;  /* it detects corruption: no CRC32C */
	bool lossless; /* it loses nothing: sealed datagrams do not overtake each other there */
	uint8_t least; /* enum lend_level: sessions below it neither send nor receive */
};

/* Zeros: as in the protocol. */
struct lend_records_limits {
	uint64_t epoch_datagrams;
	lend_ns epoch_ns, previous_ns;
	uint64_t failures_max; /* wrong tags of one session; then spent() */
};

/* Functions of the owner. */
struct lend_records_calls {
	/* Memory of keys, aligned to 64 bytes and zero. NULL: there is none. */
	void *(*take)(void *arg, size_t len);
	void (*give)(void *arg, void *memory, size_t len);
	/* Returns the largest number of this session that the peer has acknowledged. */
	uint64_t (*acked)(void *arg, uint64_t session);
	/* A datagram that is sealed for a session without keys: in->data is its head. */
	void (*stray)(void *arg, const struct lend_in *in);
	/* The session has seen failures_max wrong tags: it must end. */
	void (*spent)(void *arg, uint64_t session);
	/* Judge and complete the datagrams of a handshake, in the order of their burst; NULL: they
	 * pass as they are. False: the datagram is dropped. */
	bool (*shake_in)(void *arg, lend_ns now, struct lend_in *in);
	bool (*shake_out)(void *arg, lend_ns now, const struct lend_bufs *bufs,
			  struct lend_out *out);
	void *arg;
};

/* The result of a handshake. */
struct lend_seal_keys {
	uint64_t session; /* our id of the session; its index in the low 24 bits */
	uint64_t peer_id; /* the peer's id of it, which the datagrams to the peer bear */
	uint8_t tx[LEND_KEY], rx[LEND_KEY]; /* secrets of both directions */
	uint8_t suite;                      /* enum lend_suite */
	uint8_t level;                      /* enum lend_level, not NONE */
};

struct lend_record_keys; /* record_keys.h */
struct lend_records {
	const struct lend_seal_ops *ops;
	struct lend_records_limits limits;
	struct lend_records_calls calls;
	struct lend_records_stats stats;
	struct lend_record_keys **of; /* by session index; NULL: the session has no keys */
	uint32_t sessions;
	uint32_t keyed; /* sessions with keys */
};

/* Bytes that a datagram grows by, at most; of it, the tag or the CRC32C. */
enum { LEND_RECORD_TRAILER = sizeof(struct lend_pkt_trailer) };
/* Bytes of room that one datagram of len bytes needs in seal(). */
static inline uint32_t lend_records_room(uint32_t len)
{
	return (len + LEND_RECORD_TRAILER + 127) & ~63u;
}

/* Begins without keys. The array has `sessions` entries, all NULL; it and ops outlive r. */
void lend_records_begin(struct lend_records *r, const struct lend_seal_ops *ops,
			const struct lend_records_calls *calls, struct lend_record_keys **of,
			uint32_t sessions);
/* Wipes all keys. */
void lend_records_end(struct lend_records *r);
/* From now on datagrams of this session are sealed, both ways. Replaces keys of an earlier session
 * with its index. Returns 0, -ENOMEM, or -EINVAL: the suite or the level is not here. */
int lend_records_install(struct lend_records *r, lend_ns now, const struct lend_seal_keys *keys);
/* Wipes the keys of a session, if it has any. */
void lend_records_remove(struct lend_records *r, uint64_t session);
/* Returns the level of a session; its suite in *suite. */
uint8_t lend_records_level(const struct lend_records *r, uint64_t session, uint8_t *suite);
/* Returns since when the session's datagrams are sealed with the present keys; 0: it has none. */
lend_ns lend_records_key_since(const struct lend_records *r, uint64_t session);
/* Returns how many datagrams of a session had a wrong tag. */
uint64_t lend_records_failures(const struct lend_records *r, uint64_t session);

/* Opens the datagrams of a burst in place; their memory is private to this process. Removes those
 * that fail, and returns the number left. */
uint32_t lend_records_open(struct lend_records *r, const struct lend_records_path *path,
			   lend_ns now, struct lend_in *in, uint32_t n);
/* Memory for sealed datagrams, aligned to 64 bytes, until the carrier has them. */
struct lend_records_memory {
	uint8_t *at, *end;
};
/* Seals the first datagrams of a burst, as many as the memory takes; at least one fits. A sealed
 * one is one head. Returns their number; 0: the first one must not leave and is marked
 * LEND_SENT_DEAD. */
uint32_t lend_records_seal(struct lend_records *r, const struct lend_records_path *path,
			   lend_ns now, const struct lend_bufs *bufs,
			   struct lend_records_memory room, struct lend_out *out, uint32_t n);

#endif
