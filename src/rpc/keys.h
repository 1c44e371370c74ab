/* keys - the keys of this process: the one that it connects with, and those that peers may prove.
 *
 * They come from secrets of endpoints, $LEND_SECRET and a file ($LEND_KEYS, else
 * ~/.config/lend/keys where that exists), which is read once, before the first endpoint. A secret
 * of 64 hex digits is a key itself; from any other text Argon2id derives a key with $LEND_CLUSTER
 * as salt, once per process. Layer: rpc. Threads: any. */
#ifndef LEND_RPC_KEYS_H
#define LEND_RPC_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "seal/seal.h"

/* Returns libsodium, loaded at the first call. 0, or -ENODEV with lend_why(). */
int lend_keys_seal(const struct lend_seal_ops **ops);
/* Returns the id of the key that an endpoint connects with: of its own secret, which is accepted
 * from now on; "": none; NULL: of the first secret that an endpoint of this process was given, else
 * of $LEND_SECRET, else the file's first. Id 0: none. 0, or -errno with lend_why(). */
int lend_keys_first(const char *secret, uint64_t *id);
/* Finds a key; false: it is unknown here. */
bool lend_keys_find(uint64_t id, uint8_t psk[LEND_KEY]);
/* Returns the id of this secret's key; 0: there is no memory to derive it, or no libsodium. */
uint64_t lend_keys_id(const char *secret);
/* Returns the path of the key file. True: $LEND_KEYS names it, so it must exist. */
bool lend_keys_path(char *path, size_t size);
/* Accepts one more secret. 0, or -errno with lend_why(). */
int lend_keys_add(const char *secret);

#endif
