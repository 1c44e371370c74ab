/* Goal: verbs addresses, and the bytes in front of a datagram (GRH), are parsed correctly or
 * refused with an error text.
 * Method: tables; one wrong byte at a time.
 * Covers: src/io/verbs/addr.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "io/verbs/addr.h"
#include "sys/last_error.h"

static const uint8_t own[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 77, 0, 1};

Test(verbs_addr, address__all_fields)
{
	struct verbs_address a;

	cr_assert_eq(verbs_address_parse("verbs:mlx5_0@10.77.0.1:7001?gid=3&pkey=0x8001&tclass=104&"
					 "mtu=1024&sl=5&ring=16&srq=1&rc=3&qp=17",
					 &a),
		     0);
	cr_assert_str_eq(a.device, "mlx5_0");
	cr_assert_eq(memcmp(a.ip, own, 16), 0);
	cr_assert(a.port == 7001 && a.gid == 3 && a.pkey == 0x8001 && a.tclass == 104);
	cr_assert(a.mtu == 1024 && a.sl == 5 && a.ring == 16 && a.srq && a.rc == 3 && a.qp == 17);
	cr_assert_eq(verbs_address_parse("verbs:any@[fd00::1]:0", &a), 0);
	cr_assert(a.ip[0] == 0xfd && a.ip[15] == 1 && !verbs_ip_is_v4(a.ip));
	cr_assert(a.port == 0 && a.gid == -1 && a.sl == -1 && !a.srq && a.ring == VERBS_RING &&
		  a.rc == VERBS_RC_MAX);
}

Test(verbs_addr, invalid_address__is_refused_with_a_reason)
{
	static const char *const wrong[] = {
	    "verbs:",
	    "verbs:rxe0",
	    "verbs:10.0.0.1:1",
	    "verbs:@10.0.0.1:1",
	    "verbs:rxe0@10.0.0.1",
	    "verbs:rxe0@10.0.0.1:65536",
	    "verbs:rxe0@10.0.0.1:x",
	    "verbs:rxe0@10.0.0:1",
	    "verbs:rxe0@host:1",
	    "verbs:rxe0@[10.0.0.1]:1",
	    "verbs:rxe0@fd00::1:1",
	    "verbs:rxe0@[]:1",
	    "verbs:rxe0@0.0.0.0:1",
	    "verbs:rxe0@[::]:1",
	    "verbs:rxe0@10.0.0.1:1?gid",
	    "verbs:rxe0@10.0.0.1:1?gid=",
	    "verbs:rxe0@10.0.0.1:1?gid=-1",
	    "verbs:rxe0@10.0.0.1:1?gid=65536",
	    "verbs:rxe0@10.0.0.1:1?pkey=0",
	    "verbs:rxe0@10.0.0.1:1?pkey=0x10000",
	    "verbs:rxe0@10.0.0.1:1?sl=16",
	    "verbs:rxe0@10.0.0.1:1?tclass=256",
	    "verbs:rxe0@10.0.0.1:1?mtu=255",
	    "verbs:rxe0@10.0.0.1:1?mtu=4097",
	    "verbs:rxe0@10.0.0.1:1?ring=15",
	    "verbs:rxe0@10.0.0.1:1?ring=32769",
	    "verbs:rxe0@10.0.0.1:1?srq=2",
	    "verbs:rxe0@10.0.0.1:1?rc=65",
	    "verbs:rxe0@10.0.0.1:1?qp=1",
	    "verbs:rxe0@10.0.0.1:1?nothing=1",
	    "verbs:0123456789012345678901234567890123456789012345678901234567890123@10.0.0.1:1",
	    "udp:10.0.0.1:1",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct verbs_address a;

		cr_expect_eq(verbs_address_parse(wrong[i], &a), -EINVAL, "%s", wrong[i]);
		cr_expect(strstr(lend_why_text(), "; write verbs:") != NULL, "%s: %s", wrong[i],
			  lend_why_text());
	}
}

Test(verbs_addr, a_printed_address_reads_the_same)
{
	struct verbs_address a, b;
	char text[104];

	cr_assert_eq(verbs_address_parse("verbs:rxe0@[2001:db8::77]:9?qp=18", &a), 0);
	cr_assert_eq(verbs_address_print(a.device, a.ip, a.port, a.qp, text, sizeof(text)), 0);
	cr_assert_eq(verbs_address_parse(text, &b), 0);
	cr_assert_eq(memcmp(&a, &b, sizeof(a)), 0);
	cr_assert_eq(verbs_address_print("rxe0", own, 7, 0, text, sizeof(text)), 0);
	cr_assert_str_eq(text, "verbs:rxe0@10.77.0.1:7");
	cr_assert_eq(verbs_address_print("rxe0", own, 7, 0, text, strlen(text) + 1), 0);
	cr_assert_eq(verbs_address_print("rxe0", own, 7, 0, text, strlen(text)), -ERANGE);
	cr_assert_eq(verbs_address_print("rxe0", own, 7, 99, text, 25), -ERANGE);
}

/* Builds the GRH of a datagram from 10.77.0.2. */
static void make_v4(uint8_t grh[VERBS_GRH])
{
	static const uint8_t ip[20] = {0x45, 0x6b, 0,  60, 0, 0, 0x40, 0,  64, 17,
				       0,    0,    10, 77, 0, 2, 10,   77, 0,  1};

	memset(grh, 0xa5, 20); /* undefined */
	memcpy(grh + 20, ip, sizeof(ip));
}

static void make_v6(uint8_t grh[VERBS_GRH], const uint8_t from[16], const uint8_t to[16])
{
	memset(grh, 0, 8);
	grh[0] = 0x66;
	grh[1] = 0xb0;
	memcpy(grh + 8, from, 16);
	memcpy(grh + 24, to, 16);
}

Test(verbs_addr, grh__names_the_sender)
{
	static const uint8_t v6[16] = {0xfd, [15] = 1}, other[16] = {0xfd, [15] = 2};
	uint8_t grh[VERBS_GRH], from[16], tclass = 0;
	/* A mapped sender address that ends in bytes like the start of an IPv4 header. */
	uint8_t tricky[16];

	make_v4(grh);
	cr_assert(verbs_grh_read(grh, own, from, &tclass));
	cr_assert(verbs_ip_is_v4(from) && from[15] == 2 && tclass == 0x6b);
	make_v6(grh, other, v6);
	cr_assert(verbs_grh_read(grh, v6, from, &tclass));
	cr_assert(memcmp(from, other, 16) == 0 && tclass == 0x6b);
	memcpy(tricky, own, 16);
	tricky[12] = 0x45;
	make_v6(grh, tricky, own);
	cr_assert(verbs_grh_read(grh, own, from, &tclass));
	cr_assert_eq(memcmp(from, tricky, 16), 0);
}

Test(verbs_addr, a_class_leaves_ecn_alone)
{
	for (uint32_t tclass = 0; tclass < 256; tclass++) {
		cr_expect_eq(verbs_traffic_class((uint8_t)tclass, 0), tclass);
		for (uint8_t precedence = 1; precedence < 8; precedence++)
			cr_expect_eq(verbs_traffic_class((uint8_t)tclass, precedence),
				     precedence * 32 + tclass % 4);
	}
}

Test(verbs_addr, grh_to_another__is_not_ours)
{
	static const uint8_t v6[16] = {0xfd, [15] = 1};
	uint8_t grh[VERBS_GRH], from[16], tclass;

	make_v4(grh);
	cr_assert(!verbs_grh_read(grh, v6, from, &tclass));
	for (uint32_t i = 36; i < VERBS_GRH; i++) {
		make_v4(grh);
		grh[i] ^= 1;
		cr_assert(!verbs_grh_read(grh, own, from, &tclass));
	}
	for (uint32_t i = 24; i < VERBS_GRH; i++) {
		make_v6(grh, v6, v6);
		grh[i] ^= 1;
		cr_assert(!verbs_grh_read(grh, v6, from, &tclass));
	}
	memset(grh, 0, sizeof(grh));
	cr_assert(!verbs_grh_read(grh, own, from, &tclass));
}
