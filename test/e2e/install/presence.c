/* presence - serves presence.proto at shm:presence: replies are requests that the stubs of lend
 * protoc decoded and encoded again, with the metadata of the request. */
#include <stdio.h>

#include <lend/grpc.h>

#include "presence.pb-c.h"

static struct lend_ep *ep;

static void echo_echo(Presence__Echo_Service *service, const Presence__All *in,
		      Presence__All_Closure closure, void *closure_data)
{
	struct lend_metadata *metadata = lend_metadata_new();
	struct lend_reply_head head = {.initial = metadata, .trailing = metadata};
	struct lend_pair pair;

	(void)service;
	for (uint32_t at = 0; lend_request_metadata(ep, lend_pb_request(closure_data), &at, &pair);)
		(void)lend_metadata_add(metadata, pair.key, pair.value, pair.len);
	if (in->_number_case && !in->number)
		lend_metadata_add(metadata, "zero", "there", 5);
	lend_pb_reply_head(closure_data, &head);
	closure(in, closure_data);
	lend_metadata_free(metadata);
}

int main(void)
{
	Presence__Echo_Service service = PRESENCE__ECHO__INIT(echo_);
	struct lend_config config = LEND_CONFIG_INIT;
	int err;

	config.listen = "shm:presence";
	err = lend_open(&config, &ep);
	if (!err)
		err = lend_pb_serve(ep, &service.base);
	if (!err) /* until its data are loaded, for example */
		err = lend_pb_health(ep, service.base.descriptor->name, true);
	if (!err)
		err = lend_run(ep, LEND_NEVER);
	fprintf(stderr, "presence: %s\n", lend_why());
	lend_close(ep);
	lend_pb_end(ep);
	return err != 0;
}
