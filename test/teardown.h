/* teardown - checks at the end of a test that can fail it.
 *
 * Criterion counts no assertion of a .fini function: it prints the failure, and the test passes. So
 * a .fini only frees and removes. teardown(), a function of the suite that TestThen() calls after
 * the body, checks that the test left nothing behind. Layer: test. */
#ifndef TEST_TEARDOWN_H
#define TEST_TEARDOWN_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

/* Test(suite, name, ...), and teardown() after its body unless that has failed. */
#define TestThen(suite, name, ...)                                                                 \
	static void suite##_##name##_body(void);                                                   \
	Test(suite, name, ##__VA_ARGS__)                                                           \
	{                                                                                          \
		suite##_##name##_body();                                                           \
		teardown();                                                                        \
	}                                                                                          \
	static void suite##_##name##_body(void)

/* Removes a folder of the test's own, in a .fini function. Aborts on failure: Criterion warns, and
 * ctest counts the warning as a failure. */
static inline void teardown_remove(const char *folder)
{
	char command[256];

	(void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	if (system(command) == 0) /* NOLINT(cert-env33-c): made by this test */
		return;
	fprintf(stderr, "cannot remove %s\n", folder);
	abort();
}

#endif
