/* Goal: a text chooses the level of each carrier, networks are encrypted without one, and a wrong
 * text is refused with a line that shows the right form. Method: tables. Covers:
 * src/rpc/level_rules.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lend/carrier.h"
#include "lend/rpc.h"
#include "rpc/level_rules.h"
#include "seal/suite.h"

enum { ADDRESSES = 9 };
static const char *const address[ADDRESSES] = {"shm:a",
					       "shm:a@/dev/dax0.0",
					       "udp:10.0.0.1:80",
					       "dpdk:ring@1.2.3.4:5",
					       "dpdk:memif@1.2.3.4:5",
					       "dpdk:0000:01:00.0@1.2.3.4:5",
					       "verbs:rxe0@1.2.3.4:5",
					       "broker:a/dpdk:memif@1.2.3.4:5",
					       "broker:a/udp:1.2.3.4:5"};

Test(level_rules, text__chooses_each_level)
{
	static const struct {
		const char *text;
		uint8_t want[ADDRESSES], network;
	} row[] = {
	    {NULL, {0, 2, 2, 0, 0, 2, 2, 0, 2}, 2},
	    {"", {0, 2, 2, 0, 0, 2, 2, 0, 2}, 2},
	    {"encrypt", {0, 2, 2, 0, 0, 2, 2, 0, 2}, 2},
	    {"authenticate", {0, 1, 1, 0, 0, 1, 1, 0, 1}, 1},
	    {"none", {0, 0, 0, 0, 0, 0, 0, 0, 0}, 0},
	    {"encrypt+local", {2, 2, 2, 2, 2, 2, 2, 2, 2}, 2},
	    {"udp=none", {0, 2, 0, 0, 0, 2, 2, 0, 0}, 2},
	    {"none,udp=encrypt", {0, 0, 2, 0, 0, 0, 0, 0, 2}, 0},
	    {"udp=encrypt,none", {0, 0, 0, 0, 0, 0, 0, 0, 0}, 0},
	    {"dpdk=authenticate", {0, 2, 2, 1, 1, 1, 2, 1, 2}, 2},
	    {"dpdk:ring=encrypt,verbs=none", {0, 2, 2, 2, 0, 2, 0, 0, 2}, 2},
	    {"shm=encrypt", {2, 2, 2, 0, 0, 2, 2, 0, 2}, 2},
	    {"broker=none", {0, 2, 2, 0, 0, 2, 2, 0, 0}, 2},
	    {"encrypt+local,shm=none", {0, 0, 2, 2, 2, 2, 2, 2, 2}, 2},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_level_rules rules;

		cr_assert_eq(lend_level_rules_read(&rules, row[i].text), 0, "%s", lend_why());
		cr_expect_eq(lend_level_rules_of(&rules, NULL), row[i].network, "%s", row[i].text);
		for (int a = 0; a < ADDRESSES; a++)
			cr_expect_eq(lend_level_rules_of(&rules, address[a]), row[i].want[a],
				     "%s of %s", row[i].text, address[a]);
	}
}

Test(level_rules, text__wrong__shows_the_form)
{
	static const char *const wrong[] = {"some",
					    "Encrypt",
					    "encrypt ",
					    ",",
					    "encrypt,,none",
					    "udp=",
					    "=none",
					    "ethernet=none",
					    "+local",
					    "none+all",
					    "udp",
					    "udp=none=none",
					    "udpudpudpudpudpudp=none",
					    "none,none,none,none,none,none,none,none,none"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct lend_level_rules rules;

		cr_expect_eq(lend_level_rules_read(&rules, wrong[i]), -EINVAL, "%s", wrong[i]);
		cr_expect(strstr(lend_why(), "CARRIER=LEVEL"), "%s", lend_why());
	}
}

Test(level_rules, environment__chooses_for_commands)
{
	cr_expect_str_eq(lend_carrier_level("udp:a:1"), "encrypt");
	setenv("LEND_LEVEL", "authenticate+local", 1);
	cr_expect_str_eq(lend_carrier_level("shm:a"), "authenticate");
	setenv("LEND_LEVEL", "some", 1);
	cr_expect_null(lend_carrier_level("udp:a:1"));
}
