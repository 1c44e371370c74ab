/* user_mention - the service of mentions: ids of the users that a text names. It reads the store of
 * the service of users, opened with the first request: another process may make it.
 * Layer: apps. Threads: the endpoint's. */
#include <string.h>

#include "apps/social/user_record.h"

static struct store *store; /* NULL: not open yet */

struct mentions {
	void *request;
	char **names; /* in text order, each once */
	const char **keys;
	size_t n;
};

static bool has_name(const struct mentions *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(m->names[i], name))
			return true;
	return false;
}

/* Answers with the users that exist. */
static void got_users(const struct store_result *result, void *state)
{
	struct mentions *m = state;
	Social__Users reply = SOCIAL__USERS__INIT;

	if (result->status != LEND_OK) {
		social_fail(m->request, result->status, "users cannot be read");
		return;
	}
	reply.users = social_memory(m->request, m->n * sizeof(*reply.users));
	for (size_t i = 0; i < m->n; i++) {
		const Social__UserRecord *record = user_record_read(m->request, &result->value[i]);
		Social__User *user = social_memory(m->request, sizeof(*user));

		if (!record)
			continue;
		social__user__init(user);
		user->username = m->names[i];
		user->user_id = record->user_id;
		reply.users[reply.n_users++] = user;
	}
	social_answer(m->request, &reply.base);
}

static void user_mention_compose_user_mentions(Social__UserMentionService_Service *service,
					       const Social__Names *in,
					       Social__Users_Closure closure, void *request)
{
	struct mentions *m = social_state(request, sizeof(*m));

	(void)service, (void)closure;
	store = store ? store : store_open_reader("user");
	if (!store) {
		social_fail(request, LEND_UNAVAILABLE, "the users cannot be read yet");
		return;
	}
	m->request = request;
	m->names = social_memory(request, in->n_names * sizeof(*m->names));
	m->keys = social_memory(request, in->n_names * sizeof(*m->keys));
	for (size_t i = 0; i < in->n_names; i++) {
		size_t len = strlen(in->names[i]);

		if (len > SOCIAL_NAME_MAX || has_name(m, in->names[i]))
			continue;
		m->keys[m->n] = user_key(request, in->names[i]);
		m->names[m->n++] = social_text_copy(request, in->names[i], len);
	}
	store_get(store, m->keys, m->n, got_users, m);
}

ProtobufCService *social_user_mention(void)
{
	static Social__UserMentionService_Service service =
	    SOCIAL__USER_MENTION_SERVICE__INIT(user_mention_);

	return &service.base;
}
