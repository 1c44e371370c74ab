/* tier - services that pass calls on without reading them: a balancer, and a tier of web servers.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_TIER_H
#define APPS_SOCIAL_TIER_H

#include "apps/social/social.h"

/* The methods that tiers pass on, and the roles that serve them. */
struct tier_method {
	const char *name;
	enum social_role role;
};
enum { TIER_METHODS = 3 };
extern const struct tier_method tier_methods[TIER_METHODS];

/* Serves these methods in SOCIAL_BALANCER, which passes them to SOCIAL_WEB, or in SOCIAL_WEB. */
void tier_serve(enum social_role role);

#endif
