/* Goal: endpoints on a network seal their sessions with the keys of the file; a removed key ends
 * its sessions, a wrong server is not believed, and each refusal names the fix. Method: two
 * endpoints over UDP that the test runs by hand; key files of its own. Covers:
 * src/rpc/sealed_sessions.c, src/rpc/shake.c, src/rpc/session.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "e2e/rpc_pair.h"
#include "rpc/endpoint.h"
#include "rpc/keyfile.h"
#include "rpc/keys.h"

enum { DEAD_MS = 300 };

static char path[128];

static void make_file(void)
{
	char made[128];

	snprintf(path, sizeof(path), "/tmp/lend.sealed_sessions.%d", (int)getpid());
	unlink(path);
	cr_assert_eq(setenv("LEND_KEYS", path, 1), 0);
	cr_assert_eq(unsetenv("LEND_SECRET"), 0);
	cr_assert_eq(lend_keygen(path, made, sizeof(made)), 0, "%s", lend_why());
}

static void remove_file(void)
{
	unlink(path);
}

static void append_lines(const char *text)
{
	FILE *file = fopen(path, "a");

	cr_assert(file);
	fputs(text, file);
	fclose(file);
}

static void open_pair(struct pair *p)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.dead = DEAD_MS * UINT64_C(1000000);
	config.probe = config.dead / 3;
	pair_open_with(p, "udp", &config, &config);
}

/* Makes a call; returns its status. */
static enum lend_status call_once(struct pair *p)
{
	struct ask ask = {0};
	enum lend_status status;

	ask_run(p, &ask, ECHO, ask_bytes(p->client, 100, 3));
	status = ask.call.status;
	ask_give(p->client, &ask);
	return status;
}

static uint8_t level_of(struct pair *p)
{
	const struct lend_session_rec *s = lend_sessions_find(p->client, p->session);
	uint8_t suite;

	return s ? lend_records_level(&p->client->sealing.records, s->core, &suite) : 0;
}

Test(sealed_sessions, session__of_the_usual_file__is_encrypted, .init = make_file,
     .fini = remove_file)
{
	struct lend_core_names names;
	struct pair p;

	open_pair(&p);
	cr_assert_eq(call_once(&p), LEND_OK);
	cr_expect_eq(level_of(&p), LEND_LEVEL_ENCRYPT);
	cr_assert_eq(lend_core_session_names(p.client->core,
					     lend_sessions_find(p.client, p.session)->core, &names),
		     0);
	cr_expect_eq(names.key_id, lend_key_id(p.client));
	cr_expect_neq(names.key_id, 0);
	pair_close(&p);
}

Test(sealed_sessions, second_session__resumes_without_dh, .init = make_file, .fini = remove_file)
{
	struct pair p;
	uint64_t dh;

	open_pair(&p);
	cr_assert_eq(call_once(&p), LEND_OK);
	dh = lend_kex_stats(p.client->shake.kex)->dh + lend_kex_stats(p.server->shake.kex)->dh;
	cr_expect_eq(dh, 4, "%lu", dh);
	cr_assert_eq(lend_connect(p.client, p.address, &p.session), 0);
	cr_assert_eq(call_once(&p), LEND_OK);
	cr_expect_eq(lend_kex_stats(p.server->shake.kex)->resumed, 1);
	cr_expect_eq(
	    lend_kex_stats(p.client->shake.kex)->dh + lend_kex_stats(p.server->shake.kex)->dh, dh);
	pair_close(&p);
}

/* The key is replaced: its sessions end, later ones have the new key. */
Test(sealed_sessions, key__removed__ends_its_sessions, .init = make_file, .fini = remove_file)
{
	char made[128];
	struct pair p;
	uint64_t old;

	open_pair(&p);
	cr_assert_eq(call_once(&p), LEND_OK);
	old = lend_key_id(p.client);
	unlink(path);
	cr_assert_eq(lend_keygen(path, made, sizeof(made)), 0);
	cr_assert_eq(lend_reload_keys(), 0, "%s", lend_why());
	pair_turns(&p, 2000);
	cr_expect_null(lend_sessions_find(p.client, p.session), "the session goes on");
	cr_expect_neq(lend_key_id(p.client), old);
	cr_assert_eq(lend_connect(p.client, p.address, &p.session), 0);
	cr_expect_eq(call_once(&p), LEND_OK);
	pair_close(&p);
}

/* X25519 of RFC 7748, section 6.1: Alice's and Bob's keys. */
#define ALICE      "77076d0a7318a57d3c16c17251b26645c6c2f8a3b1ee8bfb6ea7d0c6e3d8f1b1"
#define BOB_PUBLIC "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"

static void append_server(const char *address, const char *key)
{
	char line[256];

	snprintf(line, sizeof(line), "server %s %s\n", address, key);
	append_lines(line);
	cr_assert_eq(lend_reload_keys(), 0, "%s", lend_why());
}

/* Returns the public key of the file's static key as hex digits. */
static void public_of(char hex[65])
{
	struct lend_kex_keys keys;

	cr_assert(lend_keys_own(&keys));
	for (int i = 0; i < LEND_KEY; i++)
		sprintf(hex + 2 * i, "%02x", keys.server[i]);
}

Test(sealed_sessions, server_key__known__is_checked, .init = make_file, .fini = remove_file)
{
	char right[65];

	for (int wrong = 0; wrong < 2; wrong++) {
		enum lend_status status;
		struct pair p;

		append_lines("static " ALICE "\n");
		cr_assert_eq(lend_reload_keys(), 0, "%s", lend_why());
		public_of(right);
		open_pair(&p);
		append_server(p.address, wrong ? BOB_PUBLIC : right);
		cr_assert_eq(lend_connect(p.client, p.address, &p.session), 0);
		status = call_once(&p);
		cr_expect_eq(status, wrong ? LEND_UNAVAILABLE : LEND_OK, "wrong %d: %d", wrong,
			     status);
		cr_expect(!wrong || strstr(lend_why(), "lend keygen"), "%s", lend_why());
		pair_close(&p);
		remove_file();
		make_file();
	}
}

/* An endpoint may connect to its own address; a CONNECT that comes back otherwise is dropped. */
Test(sealed_sessions, own_address__is_answered, .init = make_file, .fini = remove_file)
{
	struct lend_call call = {.method = ECHO};
	lend_session self;
	struct pair p;

	open_pair(&p);
	cr_assert_eq(lend_connect(p.server, p.address, &self), 0, "%s", lend_why());
	call.request = ask_bytes(p.server, 2000, 4);
	cr_assert_eq(lend_call_sync(p.server, self, &call), 0);
	cr_expect_eq(call.status, LEND_OK);
	lend_buf_give(p.server, call.request);
	lend_buf_give(p.server, call.reply);
	pair_close(&p);
}

/* Without any set-up, a network is encrypted with a key that the first use makes; shared memory
 * needs none. */
Test(sealed_sessions, first_use__makes_a_key)
{
	static const char *const carrier[] = {"shm", "udp"};
	struct lend_config config = LEND_CONFIG_INIT;
	char folder[] = "/tmp/lend.sealed_sessions.XXXXXX", file[64];
	struct stat st;

	cr_assert(mkdtemp(folder));
	snprintf(file, sizeof(file), "%s/lend/keys", folder);
	cr_assert_eq(setenv("XDG_CONFIG_HOME", folder, 1), 0);
	for (int network = 0; network < 2; network++) {
		struct pair p;

		pair_open_with(&p, carrier[network], &config, &config);
		cr_expect_eq(call_once(&p), LEND_OK);
		cr_expect_eq(level_of(&p), network ? LEND_LEVEL_ENCRYPT : LEND_LEVEL_NONE);
		cr_expect_eq(stat(file, &st), network ? 0 : -1);
		pair_close(&p);
	}
	cr_expect_eq(st.st_mode & 0777, 0600);
	unlink(file);
	*strrchr(file, '/') = 0;
	rmdir(file);
	rmdir(folder);
}

/* config.level is stronger than the environment. */
Test(sealed_sessions, config__chooses_the_level, .init = make_file, .fini = remove_file)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct pair p;

	cr_assert_eq(setenv("LEND_LEVEL", "none", 1), 0);
	config.level = "none,udp=authenticate";
	pair_open_with(&p, "udp", &config, &config);
	cr_expect_eq(call_once(&p), LEND_OK);
	cr_expect_eq(level_of(&p), LEND_LEVEL_AUTHENTICATE);
	pair_close(&p);
	config.level = "some";
	cr_expect_eq(lend_open(&config, &p.client), -EINVAL);
}

/* An end without encryption learns at once what is missing. */
Test(sealed_sessions, open_client__refused__says_why, .init = make_file, .fini = remove_file)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *client = NULL;
	enum lend_status status;
	struct pair p;

	open_pair(&p);
	cr_assert_eq(setenv("LEND_LEVEL", "none", 1), 0);
	cr_assert_eq(lend_open(&config, &client), 0);
	lend_close(p.client);
	p.client = client;
	cr_assert_eq(lend_connect(client, p.address, &p.session), 0);
	status = call_once(&p);
	cr_expect_eq(status, LEND_UNAUTHENTICATED, "%d: %s", status, lend_why());
	cr_expect(strstr(lend_why(), "copy ~/.config/lend/keys"), "%s", lend_why());
	pair_close(&p);
}

Test(sealed_sessions, no_key__carrier_is_refused, .init = make_file, .fini = remove_file)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;

	config.secret = "";
	config.listen = "udp:127.0.0.1:0";
	cr_expect_eq(lend_open(&config, &ep), -EINVAL);
	cr_expect(strstr(lend_why(), "LEND_LEVEL=none"), "%s", lend_why());
	cr_assert_eq(setenv("LEND_LEVEL", "none", 1), 0);
	cr_assert_eq(lend_open(&config, &ep), 0);
	lend_close(ep);
	cr_assert_eq(setenv("LEND_LEVEL", "some", 1), 0);
	cr_expect_eq(lend_open(&config, &ep), -EINVAL);
}
