/* Goal: a loan is memory that is passed without a copy; a published one is read after the call that
 * brought its reference, until it is given back. Method: caller and reader in one thread, over shm
 * and UDP. Covers: cn/lent/loan.c */
#include <errno.h>
#include <string.h>

#include "e2e/lent_pair.h"
#include "one_line_test.h"

enum { BIG = 8 << 20 };

static void pass_loan(const char *carrier)
{
	struct lend_arg_view view;
	struct lend_loan loan;
	struct lend_call call;

	lent_open(carrier);
	cr_assert_eq(lend_loan_take(lent.caller_mem, BIG, &loan), 0, "%s", lend_why());
	cr_assert_eq((uintptr_t)loan.data % 4096, 0);
	lent_fill(loan.data, BIG, 7);
	cr_assert_eq(lend_loan_resize(lent.caller_mem, &loan, BIG / 2), 0);
	cr_assert_eq(lend_loan_resize(lent.caller_mem, &loan, 2 * BIG), 0);
	cr_assert(lent_is_filled(loan.data, BIG / 2, 7));
	lent_fill(loan.data, 2 * BIG, 7);
	lent_begin(&call, loan.data, loan.len);
	cr_assert_eq(lent_map(&view), LEND_OK);
	cr_assert(lent_is_filled(view.bytes, 2 * BIG, 7));
	/* In place: a later store is seen. */
	((uint8_t *)loan.data)[99]++;
	cr_assert_eq(((const uint8_t *)view.bytes)[99] == ((uint8_t *)loan.data)[99],
		     !strcmp(carrier, "shm"));
	lend_arg_unmap(lent.reader_mem, &view);
	lent_finish();
	lend_loan_give(lent.caller_mem, &loan);
	cr_assert_null(loan.data);
	lent_close();
}

TestRuns(mem_loan, argument__over_shm__in_place, pass_loan("shm"));
TestRuns(mem_loan, argument__over_udp__fetched, pass_loan("udp"));

static void publish_loan(const char *carrier)
{
	struct lend_loan loan, other;
	struct lend_arg_view view;
	struct lend_arg arg, none;
	struct lend_call call;
	uint8_t byte;

	lent_open(carrier);
	cr_assert_eq(lend_loan_take(lent.caller_mem, BIG, &loan), 0);
	cr_assert_eq(lend_loan_take(lent.caller_mem, 100000, &other), 0);
	lent_fill(loan.data, BIG, 3);
	cr_assert_eq(lend_loan_publish(lent.caller_mem, &loan, lent.session, &arg), 0, "%s",
		     lend_why());
	cr_assert_eq(lend_loan_publish(lent.caller_mem, &loan, lent.session, &none), -EALREADY);
	cr_assert_eq(lend_loan_resize(lent.caller_mem, &loan, 1), -EBUSY);
	for (int i = 0; i < 3; i++) { /* each call of its own */
		lent_begin(&call, other.data, 100000);
		lent.seen = arg;
		cr_assert_eq(lent_map(&view), LEND_OK);
		cr_assert_eq(view.len, BIG);
		cr_assert(lent_is_filled(view.bytes, BIG, 3));
		cr_assert_eq(lend_arg_intact(&view), 0);
		lend_arg_unmap(lent.reader_mem, &view);
		lent_finish();
	}
	lent_begin(&call, other.data, 100000);
	lent.seen = arg;
	lend_loan_give(lent.caller_mem, &loan);
	cr_assert_eq(lent_map(&view), LEND_NOT_FOUND);
	cr_assert_eq(lent_get(&byte, 1), LEND_NOT_FOUND);
	lent_finish();
	lend_loan_give(lent.caller_mem, &other);
	lent_close();
}

TestRuns(mem_loan, publish__over_shm__read_by_later_calls, publish_loan("shm"));
TestRuns(mem_loan, publish__over_udp__read_by_later_calls, publish_loan("udp"));

Test(mem_loan, publish__given_with_view_open__view_is_not_intact)
{
	uint8_t bytes[20000] = {0};
	struct lend_arg_view view;
	struct lend_loan loan;
	struct lend_arg arg;
	struct lend_call call;

	lent_open("shm");
	cr_assert_eq(lend_loan_take(lent.caller_mem, BIG, &loan), 0);
	cr_assert_eq(lend_loan_publish(lent.caller_mem, &loan, lent.session, &arg), 0);
	lent_begin(&call, bytes, sizeof(bytes));
	lent.seen = arg;
	cr_assert_eq(lent_map(&view), LEND_OK);
	lent_finish();
	cr_assert_eq(lend_arg_intact(&view), 0);
	lend_loan_give(lent.caller_mem, &loan);
	cr_assert_eq(lend_arg_intact(&view), -ESTALE);
	lend_arg_unmap(lent.reader_mem, &view);
	lent_close();
}

Test(mem_loan, take_and_publish__arguments__table)
{
	static const uint64_t bad[] = {UINT64_C(1) << 40, UINT64_MAX};
	struct lend_loan loan, full;
	struct lend_arg arg;

	lent_open("shm");
	for (int i = 0; i < 2; i++)
		cr_assert_eq(lend_loan_take(lent.caller_mem, bad[i], &loan), -EINVAL);
	cr_assert_eq(lend_loan_take(lent.caller_mem, 0, &loan), 0);
	cr_assert_eq(lend_loan_resize(lent.caller_mem, &loan, bad[0]), -EINVAL);
	cr_assert_eq(lend_loan_resize(lent.caller_mem, &loan, UINT64_C(1) << 39), -ENOMEM);
	cr_assert_eq(lend_loan_publish(lent.caller_mem, &loan, (lend_session){77}, &arg), -ESTALE);
	for (int i = 0; i < 4096; i++) {
		loan.id = 0; /* as if it were another one */
		cr_assert_eq(lend_loan_publish(lent.caller_mem, &loan, lent.session, &arg), 0);
	}
	full = loan;
	full.id = 0;
	cr_assert_eq(lend_loan_publish(lent.caller_mem, &full, lent.session, &arg), -ENOSPC);
	lend_loan_give(lent.caller_mem, &loan);
	lent_close(); /* ends the others */
}
