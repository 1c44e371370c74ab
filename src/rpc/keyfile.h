/* keyfile - one line of a file of keys, and reading such a file with care.
 *
 *   psk ID HEX64 [tenant NAME]     a key: the first connects, all are accepted
 *   static HEX64                   a server's own secret key
 *   server ADDRESS HEX64           a server's public key
 *
 * ID is the first 8 bytes of the key's SHA-256 as hex digits, so that a typing error shows. Empty
 * lines and those that begin with # mean nothing.
 * Layer: rpc. Threads: any. */
#ifndef LEND_RPC_KEYFILE_H
#define LEND_RPC_KEYFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "seal/seal.h"

enum lend_keyline_kind {
	LEND_KEYLINE_NONE,
	LEND_KEYLINE_PSK,
	LEND_KEYLINE_STATIC,
	LEND_KEYLINE_SERVER
};
enum { LEND_KEYFILE_MAX = 64 << 10, LEND_KEYLINE_WORD = 104 };

struct lend_keyline {
	enum lend_keyline_kind kind;
	uint64_t id; /* psk: id of the key */
	uint8_t key[LEND_KEY];
	char word[LEND_KEYLINE_WORD]; /* psk: its tenant or ""; server: its address */
};

/* Returns whether text is 64 hex digits. */
bool lend_keyfile_hex(const char *text, size_t len, uint8_t key[LEND_KEY]);
/* Parses a line. Returns NULL with *line filled in, or the error text. The ID is not compared with
 * the key. */
const char *lend_keyfile_parse(const char *text, size_t len, struct lend_keyline *line);
/* Refuses an open file that is not regular, not this user's, or readable by others. 0, or -errno
 * with lend_why(). */
int lend_keyfile_check(int fd, const char *path);
/* Reads the whole text of a file that belongs to this user and that no other user can read, with a
 * zero behind it; the caller wipes and frees it. Returns 0, or -errno with lend_why(); -ENOENT sets
 * no lend_why(). */
int lend_keyfile_read(const char *path, char **text);

#endif
