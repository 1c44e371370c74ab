/* head - a message head: method, metadata and status text, before the bytes of a message.
 *
 * A datagram of the message has the flag LEND_PKT_WITH_HEAD. The head is a list of entries in any
 * order:
 *
 *   0  length 2 of the whole head, a multiple of 4, at most 8 KiB
 *   2  number of entries 2
 *   then each entry: kind 1, length of the key 1, length of the value 2; the key, the value, each
 *   with a zero byte behind it; zeros up to a multiple of 4
 *
 * Metadata have a key: 1 to 255 of the characters a-z 0-9 _ . -, as gRPC's. A value is printable
 * ASCII, or any bytes if the key ends in "-bin". The other kinds have no key and occur once; their
 * values are UTF-8 without zero bytes. Thus each text is a C string in place. Receivers skip
 * entries of kinds that they do not know.
 *
 * Layer: wire (pure). Plain data, any thread. */
#ifndef LEND_WIRE_HEAD_H
#define LEND_WIRE_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LEND_HEAD_MAX = 8192,   /* bytes of a head */
	LEND_HEAD_REASON = 200, /* bytes of a status message that a handler or the runtime gives */
};

/* Features of the sender, in CONNECT and ACCEPT: the heads that it reads, and whether it answers
 * LEND_PKT_ASKS. Receivers ignore other bits. */
enum {
	LEND_FEATURE_REPLY_HEADS = 1,
	LEND_FEATURE_REQUEST_HEADS = 2,
	LEND_FEATURE_RUNNING = 4,
	LEND_FEATURE_LATE = 8
};

enum lend_head_kind {
	LEND_HEAD_METHOD = 1,                /* "/package.Service/Method" */
	LEND_HEAD_AUTHORITY,                 /* the server that the caller asked for */
	LEND_HEAD_MESSAGE,                   /* reason of a status, for people */
	LEND_HEAD_ENCODING,                  /* compression of the message's bytes */
	LEND_HEAD_TEXTS,                     /* the kinds above have no key */
	LEND_HEAD_INITIAL = LEND_HEAD_TEXTS, /* metadata that precede the message */
	LEND_HEAD_TRAILING,                  /* metadata that belong to the status */
	LEND_HEAD_STREAM,                    /* empty: the call opens a stream */
	LEND_HEAD_COMPRESSED,                /* empty: HTTP/2 compressed the message, or is to */
	LEND_HEAD_KINDS,
};

/* One entry, in the bytes of its head. */
struct lend_head_entry {
	uint8_t kind;    /* enum lend_head_kind */
	uint16_t len;    /* bytes of value, without the zero byte behind them */
	const char *key; /* "" without a key */
	const uint8_t *value;
};

/* A head that is being written. */
struct lend_head_writer {
	uint8_t *at;
	uint32_t len, cap;
	uint16_t entries;
	uint8_t texts; /* kinds without a key that it has, by bit */
	bool failed;   /* an entry did not fit, or was not valid */
};

/* Begins a head in cap bytes at `at`. */
struct lend_head_writer lend_head_begin(void *at, uint32_t cap);
/* Appends an entry; key NULL: none. */
void lend_head_add(struct lend_head_writer *w, enum lend_head_kind kind, const char *key,
		   const void *value, size_t len);
/* Appends the entries of another head that is being written, which has none without a key. */
void lend_head_append(struct lend_head_writer *w, const struct lend_head_writer *from);
/* Completes the head. Returns its length; 0: an entry did not fit, or was not valid. */
uint32_t lend_head_end(struct lend_head_writer *w);

/* Returns the length of the head at the beginning of a message of len bytes, of which n are at
 * `at`; 0: it is not valid. */
uint32_t lend_head_length(const void *at, uint32_t n, uint64_t len);
/* Checks every entry of a head of len bytes, which must not change meanwhile or later. */
bool lend_head_valid(const void *head, uint32_t len);
/* Iterates over a valid head: *at is 0 before the first call. False: there are no more. Skips kinds
 * that are not known. */
bool lend_head_next(const void *head, uint32_t *at, struct lend_head_entry *entry);
/* Finds the text of a kind without key, or NULL. */
const char *lend_head_text(const void *head, enum lend_head_kind kind);

#endif
