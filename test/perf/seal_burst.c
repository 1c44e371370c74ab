/* seal_burst - the cost of sealing and opening a datagram, in bursts of 32, next to the cipher
 * alone and to OpenSSL's EVP in the same run. perf_seal_burst [-n BURSTS] [-r ROUNDS] Prints
 * nanoseconds per datagram, the least of ROUNDS interleaved measurements of each kind: a head of 32
 * bytes and 64, 1,472 or 65,000 bytes behind it, of which fewer fit in a burst. Lend's are whole
 * passes of the record layer: gather, nonce, number, seal; find the keys, open, compare, window.
 * The cipher alone is the suite's direct calls for jobs that are ready: what this processor cannot
 * go below. Threads: one. */
#include <getopt.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lend/rpc.h"
#include "rpc/keys.h"
#include "seal/record_keys.h"
#include "util/check.h"

enum {
	BURST = 32,
	HEAD = sizeof(struct lend_pkt),
	ETHERNET = 1472,
	LONGEST = 65000,
	ROOM = 256 << 10, /* as an endpoint's */
	INDEX = 1,
	WAYS = 3
};

struct end {
	struct lend_records records;
	struct lend_record_keys *of[2];
};

static struct bench {
	struct end from, to;
	_Alignas(64) uint8_t room[ROOM];
	uint8_t head[BURST][HEAD + LONGEST], copy[BURST][HEAD + LONGEST + LEND_TAG];
	uint64_t number;
	EVP_CIPHER_CTX *evp[2]; /* encrypts, decrypts */
} b;

/* Datagrams of this length in a burst: as many as the room takes. */
static uint32_t burst_of(uint32_t len)
{
	uint32_t n = ROOM / lend_records_room(HEAD + len);

	return n < BURST ? n : BURST;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *take_memory(void *arg, size_t len)
{
	void *memory = aligned_alloc(64, len);

	(void)arg;
	return memory ? memset(memory, 0, len) : NULL;
}

static void give_memory(void *arg, void *memory, size_t len)
{
	(void)arg;
	(void)len;
	free(memory);
}

static uint64_t acked_none(void *arg, uint64_t session)
{
	(void)arg;
	(void)session;
	return 0;
}

static void open_end(struct end *e, const struct lend_seal_ops *ops, uint8_t suite, bool client)
{
	const struct lend_records_calls calls = {
	    .take = take_memory, .give = give_memory, .acked = acked_none};
	struct lend_seal_keys keys = {
	    .session = INDEX, .peer_id = INDEX, .suite = suite, .level = LEND_LEVEL_ENCRYPT};

	memset(keys.tx, client, sizeof(keys.tx));
	memset(keys.rx, !client, sizeof(keys.rx));
	memset(e->of, 0, sizeof(e->of));
	lend_records_begin(&e->records, ops, &calls, e->of, 2);
	LEND_CHECK(lend_records_install(&e->records, 1, &keys) == 0);
}

static void make_burst(struct lend_out *out, uint32_t len)
{
	for (uint32_t i = 0; i < burst_of(len); i++) {
		const struct lend_pkt head = {.magic = LEND_PKT_MAGIC,
					      .version = LEND_PKT_VERSION,
					      .kind = LEND_PKT_REQUEST,
					      .session = INDEX,
					      .number = ++b.number};

		memcpy(b.head[i], &head, sizeof(head));
		out[i] = (struct lend_out){
		    .head = b.head[i], .head_len = (uint16_t)(HEAD + len), .sess = INDEX};
	}
}

/* Adds the nanoseconds of n bursts to took: of seal, of open. */
static void run_lend(uint32_t n, uint32_t len, uint64_t took[2])
{
	const struct lend_records_memory room = {b.room, b.room + ROOM};
	const struct lend_records_path path = {.checked = true};
	struct lend_out out[BURST];
	struct lend_in in[BURST];
	uint32_t burst = burst_of(len);

	while (n-- > 0) {
		uint64_t start, middle;

		make_burst(out, len);
		start = now_ns();
		LEND_CHECK(lend_records_seal(&b.from.records, &path, 1, NULL, room, out, burst) ==
			   burst);
		middle = now_ns();
		took[0] += middle - start;
		for (uint32_t i = 0; i < burst; i++)
			in[i] = (struct lend_in){.data = out[i].head, .len = out[i].head_len};
		middle = now_ns();
		LEND_CHECK(lend_records_open(&b.to.records, &path, 1, in, burst) == burst);
		took[1] += now_ns() - middle;
	}
}

/* The cipher alone. */
static void run_cipher(uint32_t n, uint32_t len, uint64_t took[2])
{
	struct lend_record_keys *k = b.from.of[INDEX];
	static struct lend_seal_job job[BURST];
	uint32_t burst = burst_of(len);

	for (uint32_t i = 0; i < burst; i++) {
		job[i] =
		    (struct lend_seal_job){.key = k->tx[0].expanded,
					   .at = b.room + (size_t)i * lend_records_room(HEAD + len),
					   .ad_len = HEAD,
					   .len = len};
	}
	while (n-- > 0) {
		uint64_t start, middle;

		for (uint32_t i = 0; i < burst; i++)
			lend_record_nonce(job[i].nonce, k->tx[0].iv, ++b.number);
		start = now_ns();
		k->suite->seal(job, burst);
		middle = now_ns();
		k->suite->open(job, burst);
		took[1] += now_ns() - middle;
		took[0] += middle - start;
	}
}

static void evp_once(uint32_t i, uint32_t len, bool opens)
{
	EVP_CIPHER_CTX *c = b.evp[opens];
	uint8_t *text = b.copy[i] + HEAD, nonce[12] = {0};
	int n;

	memcpy(nonce + 4, b.head[i] + offsetof(struct lend_pkt, number), 8);
	LEND_CHECK(EVP_CipherInit_ex(c, NULL, NULL, NULL, nonce, !opens) == 1);
	LEND_CHECK(EVP_CipherUpdate(c, NULL, &n, b.copy[i], HEAD) == 1);
	LEND_CHECK(EVP_CipherUpdate(c, text, &n, text, (int)len) == 1);
	if (opens)
		EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, LEND_TAG, text + len);
	LEND_CHECK(EVP_CipherFinal_ex(c, text + len, &n) == 1);
	if (!opens)
		EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, LEND_TAG, text + len);
}

static void run_evp(uint32_t n, uint32_t len, uint64_t took[2])
{
	struct lend_out out[BURST];
	uint32_t burst = burst_of(len);

	while (n-- > 0) {
		uint64_t start, middle;

		make_burst(out, len);
		start = now_ns();
		for (uint32_t i = 0; i < burst; i++) {
			memcpy(b.copy[i], b.head[i], HEAD + len);
			evp_once(i, len, false);
		}
		middle = now_ns();
		for (uint32_t i = 0; i < burst; i++)
			evp_once(i, len, true);
		took[1] += now_ns() - middle;
		took[0] += middle - start;
	}
}

static void open_evp(const EVP_CIPHER *cipher)
{
	static const uint8_t key[LEND_KEY];

	for (int i = 0; i < 2; i++) {
		b.evp[i] = EVP_CIPHER_CTX_new();
		LEND_CHECK(b.evp[i] &&
			   EVP_CipherInit_ex(b.evp[i], cipher, NULL, key, NULL, !i) == 1);
	}
}

/* The least of each kind, in ns per datagram: by way, then seal and open. */
static void measure_suite(const char *name, uint32_t bursts, int rounds, uint32_t len)
{
	static void (*const way[])(uint32_t n, uint32_t len,
				   uint64_t took[2]) = {run_lend, run_cipher, run_evp};
	double best[WAYS][2] = {{1e9, 1e9}, {1e9, 1e9}, {1e9, 1e9}};

	for (int round = 0; round < rounds; round++)
		for (int kind = 0; kind < WAYS; kind++) {
			uint64_t took[2] = {0};

			way[kind](bursts, len, took);
			for (int i = 0; i < 2; i++) {
				double each = (double)took[i] / bursts / burst_of(len);

				best[kind][i] = each < best[kind][i] ? each : best[kind][i];
			}
		}
	printf("%s, %u B: seal %.0f, open %.0f; its library alone: seal %.0f, open %.0f; "
	       "OpenSSL EVP: seal %.0f, open %.0f ns per datagram\n",
	       name, len, best[0][0], best[0][1], best[1][0], best[1][1], best[2][0], best[2][1]);
}

int main(int argc, char **argv)
{
	static const struct {
		enum lend_suite id;
		const char *name;
	} suites[] = {{LEND_SUITE_AES128_GCM, "AES-128-GCM"},
		      {LEND_SUITE_CHACHA20_POLY1305, "ChaCha20-Poly1305"}};
	const struct lend_seal_ops *ops;
	uint32_t bursts = 1000;
	int rounds = 20, option;

	while ((option = getopt(argc, argv, "n:r:")) != -1) {
		if (option == '?')
			return 2;
		*(option == 'n' ? (int *)&bursts : &rounds) = atoi(optarg);
	}
	if (lend_keys_seal(&ops) < 0) {
		fprintf(stderr, "perf_seal_burst: %s\n", lend_why());
		return 1;
	}
	for (int i = 0; i < 2; i++) {
		if (!ops->suite[suites[i].id])
			continue;
		open_end(&b.from, ops, suites[i].id, true);
		open_end(&b.to, ops, suites[i].id, false);
		open_evp(i ? EVP_chacha20_poly1305() : EVP_aes_128_gcm());
		measure_suite(suites[i].name, bursts, rounds, 64);
		measure_suite(suites[i].name, bursts, rounds, ETHERNET);
		measure_suite(suites[i].name, bursts / 10 + 1, rounds, LONGEST);
		lend_records_end(&b.from.records);
		lend_records_end(&b.to.records);
		EVP_CIPHER_CTX_free(b.evp[0]);
		EVP_CIPHER_CTX_free(b.evp[1]);
	}
	return 0;
}
