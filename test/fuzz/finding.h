/* finding - counts what a fuzz target has done, and stops it when it finds something.
 * At exit one line of JSON goes to stdout: target, executions, hostile inputs fed. A check that
 * fails prints its text and place, and aborts, so that libFuzzer keeps the input. Layer: test. */
#ifndef TEST_FUZZ_FINDING_H
#define TEST_FUZZ_FINDING_H

#include <stddef.h>
#include <stdint.h>

/* Each target defines both. */
extern const char fuzz_name[];
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Counts an execution; the first one registers the line at exit. */
void fuzz_begin(void);
/* Hostile datagrams, operations, calls or writes that were fed. */
extern uint64_t fuzz_hostile;

_Noreturn void fuzz_fail(const char *file, int line, const char *what);
#define FUZZ_CHECK(cond, what)                                                                     \
	((cond) ? (void)0 : fuzz_fail(__FILE__, __LINE__, what " (" #cond ")"))

#endif
