/* Goal: memory is taken from the service manager's descriptors only if they were passed to this
 * process, and by its whole name. Method: the environment of sd_listen_fds(3), row by row. Covers:
 * mn/fdstore.c */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mn/fdstore.h"

enum { FIRST = 3 };

static void set_number(const char *name, long n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%ld", n);
	cr_assert_eq(setenv(name, text, 1), 0);
}

Test(fdstore, find__descriptors_of_this_process__by_name)
{
	static const struct {
		const char *names;
		long n, of; /* of: added to the process's id */
		int pages, arena;
	} row[] = {
	    {"lend-pages-1:lend-arena-1", 2, 0, FIRST, FIRST + 1},
	    {"other:lend-arena-1:lend-pages-1", 3, 0, FIRST + 2, FIRST + 1},
	    {"lend-pages-1:lend-arena-1", 1, 0, FIRST, -1},
	    {"lend-pages-1:lend-arena-1", 2, 1, -1, -1}, /* passed to the parent */
	    {"lend-pages-10:lend-arena", 2, 0, -1, -1},
	    {"lend-pages-1:lend-arena-1", 1025, 0, -1, -1},
	    {"", 2, 0, -1, -1},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		set_number("LISTEN_PID", (long)getpid() + row[i].of);
		set_number("LISTEN_FDS", row[i].n);
		cr_assert_eq(setenv("LISTEN_FDNAMES", row[i].names, 1), 0);
		cr_expect_eq(mn_fdstore_find(1, MN_FDSTORE_PAGES), row[i].pages, "row %zu", i);
		cr_expect_eq(mn_fdstore_find(1, MN_FDSTORE_ARENA), row[i].arena, "row %zu", i);
	}
}
