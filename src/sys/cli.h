/* cli - the command line of a daemon: its help, its version, and one line about what makes no
 * sense. Layer: sys. Threads: the main one, before there are others.
 *
 * argp's own complaints take two lines and another exit status than lend's.
 */
#ifndef LEND_SYS_CLI_H
#define LEND_SYS_CLI_H

#include <argp.h>

enum { LEND_EXIT_USAGE = 2 };

/* As argp_parse() for program, whose parser complains by lend_usage_bad(); ends the process at
 * --help, --version and what no parser knows. version: as --version prints it. */
void lend_usage_parse(const struct argp *argp, const char *program, const char *version, int argc,
		      char **argv, void *input);
/* One line on stderr, and the end. */
void lend_usage_bad(const char *program, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

#endif
