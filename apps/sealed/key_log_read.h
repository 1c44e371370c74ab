/* key_log_read - the secrets of a key log (rpc/key_log.h), by session. Layer: apps. Threads: one.
 */
#ifndef APPS_SEALED_KEY_LOG_READ_H
#define APPS_SEALED_KEY_LOG_READ_H

#include <stdio.h>

#include "seal/reopen.h"

struct key_log;

/* Reads a whole log; app_die() with its path and line if that fails. The caller closes it. */
struct key_log *key_log_read(const char *path, const struct lend_seal_ops *ops);
void key_log_close(struct key_log *log);
/* Returns the number of secrets. */
size_t key_log_size(const struct key_log *log);

enum key_log_opened {
	KEY_LOG_OPENED,
	KEY_LOG_NONE,  /* no secret of its session */
	KEY_LOG_WRONG, /* all of them leave a wrong tag */
};
/* Opens a sealed datagram in place, as lend_reopen(). */
enum key_log_opened key_log_open(struct key_log *log, uint8_t *datagram, uint32_t len,
				 uint64_t *epoch, uint8_t *suite);
/* Opens what a CONNECT or an ACCEPT encrypts, in place, and clears the tag behind it. */
enum key_log_opened key_log_open_message(const struct key_log *log, uint8_t *text, uint32_t len);

#endif
