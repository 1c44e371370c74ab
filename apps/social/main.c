/* lend-social - the processes of the social network.
 * Layer: apps. Threads: one. */
#include "apps/social/deploy.h"

int main(int argc, char **argv)
{
	return social_main(argc, argv, &social_over_lend);
}
