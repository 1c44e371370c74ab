/* gcm - AES-128-GCM of intel-ipsec-mb as a suite, by its direct functions: they cost less than its
 * jobs for datagrams. The library is loaded if it is installed. Layer: seal. */
#include "seal/module/suites.h"

#ifdef LEND_HAVE_IPSEC_MB
#include <dlfcn.h>
#include <intel-ipsec-mb.h>

_Static_assert(sizeof(struct gcm_key_data) <= LEND_EXPANDED_MAX, "expanded key");

static IMB_MGR *mgr; /* set once, by start() */

static void expand_key(const uint8_t key[LEND_KEY], void *expanded)
{
	IMB_AES128_GCM_PRE(mgr, key, expanded);
}

static void seal_parts(const struct lend_seal_job *job)
{
	struct gcm_context_data context;
	uint8_t *to = job->at + job->ad_len;

	IMB_AES128_GCM_INIT(mgr, job->key, &context, job->nonce, job->at, job->ad_len);
	for (uint32_t i = 0; i < job->parts; to += job->part[i++].len)
		IMB_AES128_GCM_ENC_UPDATE(mgr, job->key, &context, to, job->part[i].data,
					  job->part[i].len);
	IMB_AES128_GCM_ENC_FINALIZE(mgr, job->key, &context, to, LEND_TAG);
}

static void seal_jobs(const struct lend_seal_job *job, uint32_t n)
{
	struct gcm_context_data context;

	for (const struct lend_seal_job *end = job + n; job < end; job++) {
		uint8_t *text = job->at + job->ad_len;

		if (job->parts)
			seal_parts(job);
		else
			IMB_AES128_GCM_ENC(mgr, job->key, &context, text,
					   job->text ? job->text : text, job->len, job->nonce,
					   job->at, job->ad_len, text + job->len, LEND_TAG);
	}
}

static void open_jobs(struct lend_seal_job *job, uint32_t n)
{
	struct gcm_context_data context;

	for (struct lend_seal_job *end = job + n; job < end; job++) {
		uint8_t *text = job->at + job->ad_len;

		IMB_AES128_GCM_DEC(mgr, job->key, &context, text, text, job->len, job->nonce,
				   job->at, job->ad_len, job->tag, LEND_TAG);
	}
}

static const struct lend_suite_ops gcm = {.expanded_len = sizeof(struct gcm_key_data),
					  .gathers = true,
					  .expand = expand_key,
					  .seal = seal_jobs,
					  .open = open_jobs};

/* Never unloaded. */
const struct lend_suite_ops *lend_gcm_load(void)
{
	void *library = dlopen("libIPSec_MB.so.1", RTLD_NOW | RTLD_LOCAL);
	IMB_MGR *(*make)(uint64_t flags) = NULL;
	void (*init)(IMB_MGR * state, IMB_ARCH * arch) = NULL;

	if (mgr || !library)
		return mgr ? &gcm : NULL;
	*(void **)&make = dlsym(library, "alloc_mb_mgr");
	*(void **)&init = dlsym(library, "init_mb_mgr_auto");
	mgr = make && init ? make(0) : NULL;
	if (!mgr)
		return NULL;
	init(mgr, NULL);
	return &gcm;
}
#else
const struct lend_suite_ops *lend_gcm_load(void)
{
	return NULL;
}
#endif
