/* served_methods - the methods of an endpoint: by number, by name, and by any name.
 * Layer: rpc. Threads: the endpoint's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/heads.h"
#include "sys/last_error.h"
#include "util/utf8.h"

static void set_fast_path(struct lend_method *entry)
{
	entry->fast_path =
	    entry->handler && !entry->landing && !(entry->flags & (LEND_SLOW | LEND_OPENS_STREAMS));
}

static int set_handler(struct lend_ep *ep, struct lend_method *entry, lend_handler_fn *handler,
		       void *arg, unsigned flags)
{
	int rc = flags & LEND_SLOW && handler ? lend_workers_need(ep) : 0;

	if (rc < 0)
		return rc;
	entry->handler = handler;
	entry->arg = arg;
	entry->flags = flags;
	set_fast_path(entry);
	return 0;
}

static int no_memory(uint32_t method)
{
	return lend_fail(ENOMEM, "no memory for method %u", method);
}

int lend_serve(struct lend_ep *ep, uint32_t method, lend_handler_fn *handler, void *arg,
	       unsigned flags)
{
	struct lend_method *entry;
	int rc = lend_method_check(method, flags);

	if (rc < 0)
		return rc;
	entry = lend_methods_add(&ep->methods, method);
	if (!entry)
		return no_memory(method);
	if (entry->name && handler)
		return lend_fail(EEXIST, "method %u is the number of %.80s: choose another", method,
				 entry->name);
	return set_handler(ep, entry, handler, arg, flags);
}

int lend_serve_name(struct lend_ep *ep, const char *name, lend_handler_fn *handler, void *arg,
		    unsigned flags)
{
	uint32_t number = lend_method_number(name);
	size_t len = strnlen(name, LEND_NAME_MAX + 1);
	struct lend_method *entry;
	int rc = lend_method_check(number, flags & ~(unsigned)LEND_ANY_ENCODING);

	if (rc < 0)
		return rc;
	if (len == 0 || len > LEND_NAME_MAX || !lend_utf8_valid((const uint8_t *)name, len))
		return lend_fail(EINVAL,
				 "the name of a method has 1 to %d bytes of UTF-8, such as "
				 "/shop.Cart/Add",
				 LEND_NAME_MAX);
	entry = lend_methods_add(&ep->methods, number);
	if (!entry)
		return no_memory(number);
	if (entry->name ? strcmp(entry->name, name) != 0 : entry->handler != NULL)
		return lend_fail(EEXIST, "%.80s and %.80s have the number %u: rename one", name,
				 entry->name ? entry->name : "a method without a name", number);
	if (!entry->name)
		entry->name = strdup(name);
	return entry->name ? set_handler(ep, entry, handler, arg, flags) : no_memory(number);
}

int lend_serve_any(struct lend_ep *ep, lend_handler_fn *handler, void *arg, unsigned flags)
{
	int rc = lend_method_check(0, flags & ~(unsigned)LEND_ANY_ENCODING);

	return rc < 0 ? rc
		      : set_handler(ep, flags & LEND_OPENS_STREAMS ? &ep->any_stream : &ep->any,
				    handler, arg, flags);
}

int lend_serve_long(struct lend_ep *ep, uint32_t method, lend_landing_fn *place, void *arg)
{
	struct lend_method *entry = lend_methods_find(&ep->methods, method);
	int rc = lend_method_check(method, entry ? entry->flags : 0);

	if (rc < 0)
		return rc;
	entry = lend_methods_add(&ep->methods, method);
	if (!entry)
		return no_memory(method);
	entry->landing = place;
	entry->landing_arg = arg;
	set_fast_path(entry);
	return 0;
}
