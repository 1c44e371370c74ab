/* module - the interface between a program and a carrier's loadable module.
 *
 * Layer: io. A module is lend_io_NAME.so. It is linked with its own hidden copy of util and sys,
 * needs no symbol of the program that loads it (so it works below a liblend.so with a version
 * script) and exports:
 *
 *   lend_module_interface            a hash of the headers that both must have in common
 *   lend_io_module_host(host)        first, once; io/module/glue/module_glue.c has it for all
 *   lend_io_NAME_open(config, io)    as lend_io_open()
 *
 * The host passes the module's failures to the program's lend_why(), whichever thread they happen
 * in.
 */
#ifndef LEND_IO_MODULE_MODULE_H
#define LEND_IO_MODULE_MODULE_H

#include "io/io.h"

struct lend_io_host {
	int (*fail)(int err, const char *format, ...); /* lend_fail() of the program */
};

typedef void lend_io_host_fn(const struct lend_io_host *host);
typedef int lend_io_open_fn(const struct lend_io_config *config, struct lend_io **io);

#define LEND_IO_EXPORT __attribute__((visibility("default")))

/* In a module. */
LEND_IO_EXPORT lend_io_host_fn lend_io_module_host;

/* In a program: loads lend_io_NAME.so, once, and opens a carrier of it. -ENODEV: it is not
 * installed (package: what it is built from), or it does not load. */
int lend_io_module_open(const char *name, const char *package, const struct lend_io_config *config,
			struct lend_io **io);

/* In a program: loads another module, once, and finds what it exports. 0, or -ENODEV, also if it
 * was built with other headers. */
int lend_module_find(const char *file, const char *package, const char *symbol, void **found);

#endif
