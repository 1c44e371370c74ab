/* unique_id - the service of ids: 11 bits machine, 40 bits milliseconds, 12 bits counter.
 * Layer: apps. Threads: the endpoint's. */
#include "apps/social/ids.h"
#include "apps/social/social.h"

static void unique_id_compose_unique_id(Social__UniqueIdService_Service *service,
					const Social__UniqueIdReq *in, Social__Id_Closure closure,
					void *request)
{
	Social__Id out = SOCIAL__ID__INIT;

	(void)service, (void)in;
	out.id = social_new_id();
	closure(&out, request);
}

ProtobufCService *social_unique_id(void)
{
	static Social__UniqueIdService_Service service =
	    SOCIAL__UNIQUE_ID_SERVICE__INIT(unique_id_);

	return &service.base;
}
