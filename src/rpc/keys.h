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

#include "seal/key_exchange.h"

enum { LEND_TENANT_MAX = 104 };

/* Returns libsodium, loaded at the first call. 0, or -ENODEV with lend_why(). */
int lend_keys_seal(const struct lend_seal_ops **ops);
/* Returns the id of the key that an endpoint connects with: of its own secret, which is accepted
 * from now on; "": none; NULL: of the first secret that an endpoint of this process was given, else
 * of $LEND_SECRET, else the file's first. usual: of the usual file, too, not only of the one
 * that $LEND_KEYS names. Id 0: none. 0, or -errno with lend_why(). */
int lend_keys_first(const char *secret, bool usual, uint64_t *id);
/* Returns whether this key is the file's first. */
bool lend_keys_filed(uint64_t id);
/* Finds a key; false: it is unknown here. */
bool lend_keys_find(uint64_t id, uint8_t psk[LEND_KEY]);
/* Returns the id of this secret's key; 0: there is no memory to derive it, or no libsodium. */
uint64_t lend_keys_id(const char *secret);
/* Returns the path of the key file. True: $LEND_KEYS names it, so it must exist. */
bool lend_keys_path(char *path, size_t size);
/* Accepts one more secret. 0, or -errno with lend_why(). */
int lend_keys_add(const char *secret);

/* As lend_keys_first() with NULL, but makes the usual file with a new key if there is none. */
int lend_keys_make(uint64_t *id);
/* Finds the tenant of a key; false: it has none. */
bool lend_keys_tenant(uint64_t id, char tenant[LEND_TENANT_MAX]);
/* Returns whether both keys are in the file, and of one tenant or both of none: peers with one have
 * the rights of a holder of the other. */
bool lend_keys_akin(uint64_t one, uint64_t other);
/* Finds an accepted key by the first byte of its id, the first in the file's order. Returns its id;
 * 0: there is none. */
uint64_t lend_keys_hinted(uint8_t hint);
/* Fills in what a handshake needs of a shared key. Returns false if it is unknown; then *keys has a
 * key of mac1 that no peer has. */
bool lend_keys_exchange(uint64_t id, struct lend_kex_keys *keys);
/* Adds the key pair of this server; false: the file has none. */
bool lend_keys_own(struct lend_kex_keys *keys);
/* Returns a number for the public key of the server at this address; 0: the file has none. */
uint32_t lend_keys_server(const char *address);
/* Adds that public key; false: a reload has removed it. */
bool lend_keys_of_server(uint32_t server, struct lend_kex_keys *keys);
/* Returns a number that changes when the keys were read again: see lend_reload_keys(). */
uint32_t lend_keys_generation(void);

#endif
