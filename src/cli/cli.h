/* cli - a program's name, the one line about a command line that is wrong, and the numbers in it.
 * Layer: cli. Threads: the main one, before there are others. */
#ifndef LEND_CLI_CLI_H
#define LEND_CLI_CLI_H

#include <stdint.h>

enum { LEND_EXIT_USAGE = 2 };

/* Sets the prefix of every message: "lend " "lat", or "lend-mn" "". */
void lend_cli_name_set(const char *program, const char *name);
const char *lend_cli_name(void);
/* Prints one line on stderr, which names the fix, and exits with LEND_EXIT_USAGE. */
_Noreturn void lend_cli_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Return the parsed value; lend_cli_bad() with the option (named without dashes), the text and the
 * range when it is invalid. Numbers: decimal or 0x hex. Sizes: 64, 4K, 1M, 1G (powers of 1024).
 * Durations in nanoseconds: 2 (seconds), 0.5, 200ms, 10m, 1h. */
uint64_t lend_cli_u64(const char *option, const char *text, uint64_t min, uint64_t max);
uint64_t lend_cli_size(const char *option, const char *text, uint64_t min, uint64_t max);
uint64_t lend_cli_ns(const char *option, const char *text);

#endif
