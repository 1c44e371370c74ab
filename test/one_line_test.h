/* one_line_test - a Criterion test that is one statement, mostly a check with its parameters.
 * Layer: test. */
#ifndef TEST_ONE_LINE_TEST_H
#define TEST_ONE_LINE_TEST_H

#include <criterion/criterion.h>

/* Test(suite, name, ...) with this statement as its body. */
#define TestRuns(suite, name, statement, ...)                                                      \
	Test(suite, name, ##__VA_ARGS__)                                                           \
	{                                                                                          \
		statement;                                                                         \
	}                                                                                          \
	_Static_assert(1, "takes the semicolon")

#endif
