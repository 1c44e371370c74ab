/* module - what a program and a carrier's loadable module hand each other.
 *
 * Layer: io. A module is lend_io_NAME.so. It is linked with its own hidden copy of util and sys,
 * needs no symbol of the program that loads it (so it works below a liblend.so with a version
 * script) and exports two:
 *
 *   void lend_io_NAME_host(const struct lend_io_host *host);                             first,
 * once int lend_io_NAME_open(const struct lend_io_config *config, struct lend_io **io);     as
 * lend_io_open()
 *
 * Through the host the module's failures land in the program's lend_why(), whichever thread they
 * happen in.
 */
#ifndef LEND_IO_MODULE_H
#define LEND_IO_MODULE_H

#include "io/io.h"

struct lend_io_host {
	int (*fail)(int err, const char *format, ...); /* lend_fail() of the program */
};

typedef void lend_io_host_fn(const struct lend_io_host *host);
typedef int lend_io_open_fn(const struct lend_io_config *config, struct lend_io **io);

#endif
