/* gcm - AES-128-GCM of intel-ipsec-mb as a suite, by its direct functions: they cost less than its
 * jobs for datagrams. The library is loaded if it is installed.
 *
 * Each of its functions writes one word of the process, the last error, so threads would pass a
 * cache line around with every datagram. Hence each thread has a copy of the library
 * (library_copy); the first thread uses the library itself. Layer: seal. */
#include "seal/module/suites.h"

#ifdef LEND_HAVE_IPSEC_MB
#include <cpuid.h>
#include <dlfcn.h>
#include <intel-ipsec-mb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "seal/module/library_copy.h"

_Static_assert(sizeof(struct gcm_key_data) <= LEND_EXPANDED_MAX, "expanded key");

enum { COPIES = 64 }; /* further threads use the library itself */

/* The functions of one copy. */
struct gcm_copy {
	aes_gcm_enc_dec_t seal, open;
	aes_gcm_init_t init;
	aes_gcm_enc_dec_update_t update;
	aes_gcm_enc_dec_finalize_t finalize;
};

/* The library's own functions; set once, by lend_gcm_load(). */
static aes_gcm_pre_t expand;
static struct gcm_copy library;
static pthread_key_t of_thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gcm_copy copies[COPIES]; /* [0]: the library; seal NULL: not yet mapped */
static bool held[COPIES];              /* by a thread; under the lock */

static void expand_key(const uint8_t key[LEND_KEY], void *expanded)
{
	expand(key, expanded);
}

/* Returns the functions at this distance from the library's. */
static struct gcm_copy functions_at(ptrdiff_t distance)
{
	struct gcm_copy copy;
	ptrdiff_t at[sizeof(copy) / sizeof(ptrdiff_t)];

	memcpy(at, &library, sizeof(copy));
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		at[i] += distance;
	memcpy(&copy, at, sizeof(copy));
	return copy;
}

/* Takes a copy for this thread, until it ends. */
static const struct gcm_copy *take_copy(void)
{
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < COPIES && held[i])
		i++;
	if (i == COPIES)
		i = 0;
	held[i] = true;
	if (!copies[i].seal)
		copies[i] = functions_at(i > 0 ? lend_library_copy(*(void **)&library.seal) : 0);
	pthread_mutex_unlock(&lock);
	(void)pthread_setspecific(of_thread, &copies[i]);
	return &copies[i];
}

static void give_copy(void *copy)
{
	pthread_mutex_lock(&lock);
	held[(struct gcm_copy *)copy - copies] = false;
	pthread_mutex_unlock(&lock);
}

static inline const struct gcm_copy *my_copy(void)
{
	const struct gcm_copy *copy = pthread_getspecific(of_thread);

	return copy ? copy : take_copy();
}

static void seal_parts(const struct gcm_copy *copy, const struct lend_seal_job *job)
{
	struct gcm_context_data context;
	uint8_t *to = job->at + job->ad_len;

	copy->init(job->key, &context, job->nonce, job->at, job->ad_len);
	for (uint32_t i = 0; i < job->parts; to += job->part[i++].len)
		copy->update(job->key, &context, to, job->part[i].data, job->part[i].len);
	copy->finalize(job->key, &context, to, LEND_TAG);
}

static void seal_jobs(const struct lend_seal_job *job, uint32_t n)
{
	const struct gcm_copy *copy = my_copy();
	struct gcm_context_data context;

	for (const struct lend_seal_job *end = job + n; job < end; job++) {
		uint8_t *text = job->at + job->ad_len;

		if (job->parts)
			seal_parts(copy, job);
		else
			copy->seal(job->key, &context, text, job->text ? job->text : text, job->len,
				   job->nonce, job->at, job->ad_len, text + job->len, LEND_TAG);
	}
}

static void open_jobs(struct lend_seal_job *job, uint32_t n)
{
	const struct gcm_copy *copy = my_copy();
	struct gcm_context_data context;

	for (struct lend_seal_job *end = job + n; job < end; job++) {
		uint8_t *text = job->at + job->ad_len;

		copy->open(job->key, &context, text, text, job->len, job->nonce, job->at,
			   job->ad_len, job->tag, LEND_TAG);
	}
}

static const struct lend_suite_ops gcm = {.expanded_len = sizeof(struct gcm_key_data),
					  .gathers = true,
					  .expand = expand_key,
					  .seal = seal_jobs,
					  .open = open_jobs};

/* clang 14 does not know these names in __builtin_cpu_supports(). */
static bool has_vector_aes(void)
{
	unsigned int a, b, features, d;

	return __get_cpuid_count(7, 0, &a, &b, &features, &d) && features & bit_VAES &&
	       features & bit_VPCLMULQDQ;
}

static bool has_wide_aes(void)
{
	return has_vector_aes() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("bmi2");
}

static bool has_narrow_aes(void)
{
	return !__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx2") &&
	       __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}

static void *find_function(void *from, const char *name, const char *variant)
{
	char symbol[64];

	(void)snprintf(symbol, sizeof(symbol), "aes_gcm_%s_%s", name, variant);
	return dlsym(from, symbol);
}

static bool find_variant(void *from, const char *variant)
{
	*(void **)&expand = find_function(from, "pre_128", variant);
	*(void **)&library.seal = find_function(from, "enc_128", variant);
	*(void **)&library.open = find_function(from, "dec_128", variant);
	*(void **)&library.init = find_function(from, "init_128", variant);
	*(void **)&library.update = find_function(from, "enc_128_update", variant);
	*(void **)&library.finalize = find_function(from, "enc_128_finalize", variant);
	return expand && library.seal && library.open && library.init && library.update &&
	       library.finalize;
}

/* Finds the functions that the library would choose on this processor by their names: its manager
 * takes as long to set up as a process takes to start, because it tests all of its ciphers. False:
 * they are not there. */
static bool find_named(void *from)
{
	if (has_wide_aes())
		return find_variant(from, "vaes_avx512");
	return has_narrow_aes() && ((has_vector_aes() && find_variant(from, "vaes_avx2")) ||
				    find_variant(from, "avx_gen4"));
}

/* Has the library's manager choose the functions. False: it cannot be set up. */
static bool find_by_manager(void *from)
{
	IMB_MGR *(*make)(uint64_t flags) = NULL;
	void (*init)(IMB_MGR * state, IMB_ARCH * arch) = NULL;
	void (*give)(IMB_MGR * state) = NULL;
	IMB_MGR *mgr;

	*(void **)&make = dlsym(from, "alloc_mb_mgr");
	*(void **)&init = dlsym(from, "init_mb_mgr_auto");
	*(void **)&give = dlsym(from, "free_mb_mgr");
	mgr = make && init && give ? make(0) : NULL;
	if (!mgr)
		return false;
	init(mgr, NULL);
	expand = mgr->gcm128_pre;
	library = (struct gcm_copy){.seal = mgr->gcm128_enc,
				    .open = mgr->gcm128_dec,
				    .init = mgr->gcm128_init,
				    .update = mgr->gcm128_enc_update,
				    .finalize = mgr->gcm128_enc_finalize};
	give(mgr);
	return true;
}

/* Never unloaded. */
const struct lend_suite_ops *lend_gcm_load(void)
{
	static bool loaded;
	void *from = loaded ? NULL : dlopen("libIPSec_MB.so.1", RTLD_NOW | RTLD_LOCAL);

	if (from)
		loaded = (find_named(from) || find_by_manager(from)) &&
			 pthread_key_create(&of_thread, give_copy) == 0;
	return loaded ? &gcm : NULL;
}
#else
const struct lend_suite_ops *lend_gcm_load(void)
{
	return NULL;
}
#endif
