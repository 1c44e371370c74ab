/* Goal: each line of a key file is parsed exactly, or refused with its fault. A file that other
 * users can read or own is refused. Method: tables; files made here. Covers: src/rpc/keyfile.c,
 * src/rpc/keys.c, src/rpc/keygen.c, src/seal/module/sodium.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lend/rpc.h"
#include "rpc/keyfile.h"
#include "rpc/keys.h"

#define ID  "0123456789abcdef"
#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1F"
/* The longest word that a line keeps. */
#define WORD_103                                                                                   \
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567" \
	"89012345678901x"
_Static_assert(sizeof(WORD_103) == sizeof(((struct lend_keyline *)0)->word), "it just fits");

Test(keyfile, parse__line__kind_or_fault)
{
	static const struct {
		const char *text;
		int kind; /* -1: refused */
		const char *word;
	} row[] = {
	    {"", LEND_KEYLINE_NONE, ""},
	    {"  \t", LEND_KEYLINE_NONE, ""},
	    {"# psk", LEND_KEYLINE_NONE, ""},
	    {"psk " ID " " KEY, LEND_KEYLINE_PSK, ""},
	    {"  psk\t" ID "  " KEY "\r", LEND_KEYLINE_PSK, ""},
	    {"psk " ID " " KEY " tenant shop", LEND_KEYLINE_PSK, "shop"},
	    {"static " KEY, LEND_KEYLINE_STATIC, ""},
	    {"server udp:10.0.0.2:7000 " KEY, LEND_KEYLINE_SERVER, "udp:10.0.0.2:7000"},
	    {"psk " ID, -1, ""},
	    {"psk " ID " " KEY " shop", -1, ""},
	    {"psk " ID " " KEY " tenant", -1, ""},
	    {"psk " ID " " KEY " owner shop", -1, ""},
	    {"psk " ID " " KEY " tenant shop more", -1, ""},
	    {"psk 123456789abcdef " KEY, -1, ""},
	    {"psk 0123456789abcdeg " KEY, -1, ""},
	    {"psk " ID " " KEY "0", -1, ""},
	    {"psk " ID " x" KEY, -1, ""},
	    {"static", -1, ""},
	    {"static 12", -1, ""},
	    {"server " KEY, -1, ""},
	    {"key " KEY, -1, ""},
	    {"psk " ID " " KEY " tenant " WORD_103, LEND_KEYLINE_PSK, WORD_103},
	    {"psk " ID " " KEY " tenant " WORD_103 "x", -1, ""},
	    {"server " WORD_103 " " KEY, LEND_KEYLINE_SERVER, WORD_103},
	    {"server " WORD_103 "x " KEY, -1, ""},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_keyline line;
		const char *why = lend_keyfile_parse(row[i].text, strlen(row[i].text), &line);

		cr_expect_eq(why != NULL, row[i].kind < 0, "\"%s\": %s", row[i].text, why);
		if (why)
			continue;
		cr_expect_eq((int)line.kind, row[i].kind, "\"%s\"", row[i].text);
		cr_expect_str_eq(line.word, row[i].word);
		if (row[i].kind)
			cr_expect(line.key[0] == 0 && line.key[31] == 0x1f);
	}
}

/* Every prefix of a line is read within its bounds. */
Test(keyfile, parse__cut_short__refused)
{
	static const char text[] = "psk " ID " " KEY;
	struct lend_keyline line;

	for (size_t len = 1; len < sizeof(text) - 1; len++) {
		char *copy = malloc(len);

		memcpy(copy, text, len);
		cr_expect(lend_keyfile_parse(copy, len, &line), "%zu bytes", len);
		free(copy);
	}
}

static char path[64];

static void write_file(const char *text, mode_t mode)
{
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/lend-keyfile-%d", (int)getpid());
	unlink(path);
	file = fopen(path, "we");
	cr_assert(file);
	fputs(text, file);
	fclose(file);
	cr_assert_eq(chmod(path, mode), 0);
}

Test(keyfile, read__others_can_get_at_it__refused)
{
	static const mode_t bad[] = {0604, 0640, 0620, 0602, 0611, 0777};
	char *text;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_file("static " KEY "\n", bad[i]);
		cr_expect_eq(lend_keyfile_read(path, &text), -EPERM);
		cr_expect(strstr(lend_why(), "chmod 600"), "%s", lend_why());
	}
	if (geteuid() == 0) {
		write_file("static " KEY "\n", 0600);
		cr_assert_eq(chown(path, 65534, 65534), 0);
		cr_expect_eq(lend_keyfile_read(path, &text), -EPERM);
		cr_expect(strstr(lend_why(), "chown 0"), "%s", lend_why());
	}
	write_file("static " KEY "\n", 0600);
	cr_assert_eq(lend_keyfile_read(path, &text), 0);
	cr_expect_str_eq(text, "static " KEY "\n");
	free(text);
	unlink(path);
	cr_expect_eq(lend_keyfile_read(path, &text), -ENOENT);
	cr_expect_eq(lend_keyfile_read("/tmp", &text), -EINVAL);
}

Test(keyfile, add__cannot_be_made__the_true_cause)
{
	const struct rlimit little = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
	char cluster[2000];
	uint64_t id;

	cr_expect_eq(lend_accept_secret(""), -EINVAL);
	memset(cluster, 'c', sizeof(cluster) - 1);
	cluster[sizeof(cluster) - 1] = 0;
	cr_assert_eq(setenv("LEND_CLUSTER", cluster, 1), 0);
	cr_expect_eq(lend_accept_secret("tulip"), -EINVAL, "%s", lend_why());
	cr_expect_eq(lend_keys_first("tulip", true, &id), -EINVAL, "%s", lend_why());
	cr_expect_eq(lend_accept_secret(KEY), 0, "a key needs no cluster");
	cr_assert_eq(unsetenv("LEND_CLUSTER"), 0);
#ifdef __SANITIZE_ADDRESS__
	return; /* ASan's allocator aborts instead */
#endif
	cr_assert_eq(setrlimit(RLIMIT_AS, &little), 0);
	cr_expect_eq(lend_accept_secret("tulip"), -ENOMEM, "%s", lend_why());
	cr_expect_eq(lend_keys_first("tulip", true, &id), -ENOMEM, "%s", lend_why());
}

Test(keyfile, add__without_libsodium__no_device)
{
	cr_assert_eq(setenv("LEND_MODULE_DIR", "/nowhere", 1), 0);
	cr_expect_eq(lend_accept_secret(KEY), -ENODEV, "%s", lend_why());
	cr_expect_eq(lend_keys_id(KEY), 0);
}

/* A key that could not be written completely must not be found by the next start. */
Test(keyfile, keygen__disk_full__leaves_no_file)
{
	const struct rlimit nothing = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
	char made[128];

	write_file("", 0600);
	unlink(path);
	cr_assert_neq(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &nothing), 0);
	cr_expect_eq(lend_keygen(path, made, sizeof(made)), -EIO, "%s", lend_why());
	cr_expect_eq(access(path, F_OK), -1, "an empty file of keys is left");
	cr_expect_eq(errno, ENOENT);
}

/* The table grows while it is in use. */
Test(keyfile, add__many_keys__all_are_found)
{
	enum { KEYS = 100 };
	uint8_t psk[LEND_KEY];
	char text[KEYS][65];

	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(text[i], sizeof(text[i]), "%064x", i + 1);
		cr_assert_eq(lend_keys_add(text[i]), 0, "%s", lend_why());
	}
	for (unsigned i = 0; i < KEYS; i++) {
		cr_assert(lend_keys_find(lend_keys_id(text[i]), psk), "key %u", i);
		cr_expect(psk[LEND_KEY - 1] == i + 1 && psk[0] == 0, "key %u", i);
	}
}

Test(keyfile, keygen__then_first__connects_with_it)
{
	char made[128];
	uint8_t psk[LEND_KEY], other[LEND_KEY];
	struct lend_keyline line;
	uint64_t id, of_text;
	char *text;

	write_file("", 0600);
	cr_expect_eq(lend_keygen(path, made, sizeof(made)), -EEXIST);
	unlink(path);
	cr_assert_eq(lend_keygen(path, made, sizeof(made)), 0, "%s", lend_why());
	cr_expect_str_eq(made, path);
	cr_assert_eq(lend_keyfile_read(path, &text), 0, "%s", lend_why());
	cr_assert_null(lend_keyfile_parse(text, strcspn(text, "\n"), &line));
	cr_assert_eq(setenv("LEND_KEYS", path, 1), 0);
	cr_assert_eq(unsetenv("LEND_SECRET"), 0);
	cr_assert_eq(lend_keys_first(NULL, true, &id), 0, "%s", lend_why());
	cr_expect_eq(id, line.id);
	cr_assert_eq(lend_keys_first("", true, &id), 0);
	cr_expect_eq(id, 0, "an endpoint without its own secret was expected");
	cr_assert_eq(lend_keys_first(NULL, true, &id), 0);
	cr_expect_eq(id, line.id);
	cr_assert(lend_keys_find(id, psk));
	cr_expect_eq(memcmp(psk, line.key, sizeof(psk)), 0);
	/* The key as text is the same key. Another text is another key, which has no proof yet. */
	cr_expect_eq(lend_keys_id(strrchr(strtok(text, "\n"), ' ') + 1), id);
	of_text = lend_keys_id("tulip");
	cr_expect(of_text && of_text != id && !lend_keys_find(of_text, other));
	cr_assert_eq(lend_keys_add("tulip"), 0);
	cr_expect(lend_keys_find(of_text, other));
	cr_assert_eq(lend_keys_first("rose", true, &id), 0);
	cr_expect_eq(id, lend_keys_id("rose"));
	free(text);
	unlink(path);
}

Test(keyfile, first__bad_file__one_line_that_names_it)
{
	static const char *const bad[] = {"psk " ID " " KEY "\n", "# \nfoo\n"};
	uint64_t id;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_file(bad[i], 0600);
		cr_assert_eq(setenv("LEND_KEYS", path, 1), 0);
		cr_expect_eq(lend_keys_first(NULL, true, &id), -EINVAL);
		cr_expect(strstr(lend_why(), path), "%s", lend_why());
		cr_expect_eq(id, 0);
	}
	unlink(path);
	cr_expect_eq(lend_keys_first(NULL, true, &id), -ENOENT);
	cr_expect(strstr(lend_why(), "lend keygen"), "%s", lend_why());
}
