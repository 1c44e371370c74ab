/* real - see real.h. */
#include "preload/real.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct real real_functions;

/* Versions of gRPC core that the tests ran with: 29.0.0 is that of gRPC C++ 1.51. */
static const char *const tested[] = {"29.0.0"};

static void *find_function(const char *name)
{
	void *at = dlsym(RTLD_NEXT, name);

	if (!at) {
		fprintf(stderr, "lend grpc-run: gRPC has no %s\n", name);
		abort();
	}
	return at;
}

static bool is_tested(const char *version)
{
	for (size_t i = 0; i < sizeof(tested) / sizeof(tested[0]); i++)
		if (!strcmp(version, tested[i]))
			return true;
	return false;
}

const char *lend_grpc_lack(void *core, const char *version)
{
	if (!is_tested(version))
		return "was not tested: lend grpc-run leaves it alone";
	return dlsym(core, REAL_INPROC_CREATE) ? NULL
					       : "has no channel in process: servers use HTTP/2";
}

static void find_all(void)
{
	const char *off = getenv("LEND_GRPC");

	real_functions.active = is_tested(grpc_version_string()) && !(off && !strcmp(off, "off"));
#define FIND_REAL(name)                                                                            \
	void *at_##name = find_function(#name);                                                    \
	memcpy(&real_functions.name, &at_##name, sizeof(void *));
	REAL_FUNCTIONS(FIND_REAL)
}

void real_find(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, find_all);
}
