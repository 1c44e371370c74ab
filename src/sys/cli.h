/* cli - a daemon's command line: its help, its version, and one line about an argument that is
 * wrong.
 * Layer: sys. Threads: the main one, before there are others.
 *
 * argp's own error messages take two lines and end with another exit status than lend's. */
#ifndef LEND_SYS_CLI_H
#define LEND_SYS_CLI_H

#include <argp.h>

enum { LEND_EXIT_USAGE = 2 };

/* Parses as argp_parse() does. The parser of argp reports errors by lend_cli_bad(). Ends the
 * process at --help, at --version and at an argument that no parser accepts. program: for messages.
 * version: the text that --version prints. */
void lend_cli_parse(const struct argp *argp, const char *program, const char *version, int argc,
		    char **argv, void *input);
/* Prints one line to stderr and ends the process. */
void lend_cli_bad(const char *program, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

#endif
