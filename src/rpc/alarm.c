/* alarm - functions that run at a time: a list, the earliest first.
 * Layer: rpc. Threads: the endpoint's. Alarms are their callers'. */
#include "rpc/endpoint.h"

void lend_alarm_set(struct lend_ep *ep, struct lend_alarm *alarm, lend_ns at)
{
	struct lend_alarm **link = &ep->alarms;

	while (*link && *link != alarm)
		link = &(*link)->next;
	if (*link)
		*link = alarm->next;
	if (ep->turning && at <= ep->now)
		at = ep->now + 1; /* not again in this turn */
	alarm->at = at;
	if (at == LEND_NEVER)
		return;
	link = &ep->alarms;
	while (*link && (*link)->at <= at)
		link = &(*link)->next;
	alarm->next = *link;
	*link = alarm;
}

void lend_alarms_ring(struct lend_ep *ep)
{
	struct lend_alarm *alarm;

	while ((alarm = ep->alarms) && alarm->at <= ep->now) {
		ep->alarms = alarm->next;
		alarm->at = LEND_NEVER;
		ep->ran++;
		alarm->ring(alarm);
	}
}
