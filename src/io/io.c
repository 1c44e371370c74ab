#include "io/io.h"

#include <string.h>

#include "io/addr.h"
#include "io/capture/capture.h"
#include "io/module/module.h"
#include "sys/sweep.h"

static int open_carrier(const struct lend_io_config *config, const struct lend_carrier_kind *kind,
			struct lend_io **io)
{
	int rc = kind->open ? kind->open(config, io)
			    : lend_io_module_open(kind->module, kind->package, config, io);

	if (rc < 0)
		return rc;
	(*io)->kind = kind;
	(*io)->path.counts |= (kind->traits & LEND_CARRIER_COUNTS) != 0;
	return 0;
}

int lend_io_open(const struct lend_io_config *config, struct lend_io **io)
{
	const char *address = config->listen != NULL ? config->listen : config->peer;
	struct lend_addr parsed;
	int rc = lend_addr_parse(address, &parsed);

	if (rc == 0 && config->listen != NULL)
		lend_sweep();
	if (rc == 0)
		rc = open_carrier(config, lend_carrier_kind(address), io);
	if (rc < 0)
		return rc;
	rc = lend_capture_start(config, *io);
	if (rc < 0)
		(*io)->ops->close(*io);
	return rc;
}

bool lend_io_same_scheme(const char *a, const char *b)
{
	return lend_addr_scheme(a) != LEND_SCHEME_NONE &&
	       lend_addr_scheme(a) == lend_addr_scheme(b);
}

bool lend_io_same_carrier(const char *a, const char *b)
{
	struct lend_addr x, y;

	if (lend_io_same_scheme(a, b) && lend_addr_scheme(a) == LEND_SCHEME_BROKER)
		return strcspn(a, "/") == strcspn(b, "/") && !strncmp(a, b, strcspn(a, "/"));
	if (!lend_io_same_scheme(a, b) || lend_addr_scheme(a) != LEND_SCHEME_SHM)
		return lend_io_same_scheme(a, b);
	return lend_addr_parse(a, &x) == 0 && lend_addr_parse(b, &y) == 0 &&
	       strcmp(x.path, y.path) == 0;
}
