/* key_log - the secrets of sealed sessions and of their handshakes, appended to the file that
 * $LEND_KEY_LOG names, so that lend decap can open a capture.
 *
 * A text file, a line per session and direction; lines that begin with # mean nothing:
 *
 *   seal SESSION SUITE LEVEL SECRET
 *   open TAG KEY BOUND
 *
 * SESSION: the receiver's id, which the datagrams of the direction bear, as 16 hex digits. SUITE: 1
 * AES-128-GCM, 2 ChaCha20-Poly1305. LEVEL: 1 authenticate, 2 encrypt. SECRET: 64 hex digits, from
 * which the keys of all epochs derive (PROTOCOL.md, trailer). The second line is of a CONNECT or an
 * ACCEPT: its TAG, and the KEY and associated data of ChaCha20-Poly1305 that open what is behind
 * its clear fields. The file lets its reader decrypt the sessions and forge their datagrams, so it
 * must be readable by this user only. Layer: rpc. Threads: any. */
#ifndef LEND_RPC_KEY_LOG_H
#define LEND_RPC_KEY_LOG_H

#include "seal/record.h"

/* Opens the file, once per process. 0, also without $LEND_KEY_LOG; or -errno with lend_why(). */
int lend_key_log_open(void);
/* Appends both directions of a session. A file that cannot be written ends the log, with one line
 * on stderr, and nothing else. */
void lend_key_log_put(const struct lend_seal_keys *keys);
/* Returns the functions for handshakes: those that were given, or if there is a log others that
 * append each message. */
const struct lend_seal_ops *lend_key_log_ops(const struct lend_seal_ops *ops);

#endif
