/* user - the service of users: accounts, logins, and their ids.
 * Layer: apps. Threads: the endpoint's. */
#include <string.h>

#include "apps/social/password.h"
#include "apps/social/social.h"
#include "apps/social/social_store.h"

static struct store *store;

/* A registration, or a lookup of a user. */
struct user {
	void *request;
	Social__Account *in;
	int64_t id;
	void (*found)(struct user *u, const Social__UserRecord *record);
};

static void end_insert(const Social__Empty *reply, void *state)
{
	struct user *u = state;

	if (social_ended(u->request, SOCIAL_SOCIAL_GRAPH, reply))
		social_answer_empty(u->request);
}

/* Adds a stored user to the social graph. */
static void end_put(const struct store_result *result, void *state)
{
	struct user *u = state;
	Social__Id id = SOCIAL__ID__INIT;

	if (!social_ended_with(u->request, result->status,
			       result->status == LEND_ALREADY_EXISTS ? "the user exists already"
								     : "users cannot be stored"))
		return;
	id.id = u->id;
	social__social_graph_service__insert_user(social_call(u->request, SOCIAL_SOCIAL_GRAPH), &id,
						  end_insert, u);
}

static void register_user(void *request, const Social__Account *in, int64_t id)
{
	struct user *u = social_state(request, sizeof(*u));
	Social__UserRecord record = SOCIAL__USER_RECORD__INIT;
	char salt[SOCIAL_SALT_LEN + 1], hash[SOCIAL_HASH_LEN + 1];
	uint8_t *bytes;

	u->request = request;
	u->id = record.user_id = id;
	if (!*in->username || strlen(in->username) > SOCIAL_NAME_MAX) {
		social_fail(request, LEND_INVALID_ARGUMENT, "a name has 1 to 100 bytes");
		return;
	}
	social_random_text(salt, SOCIAL_SALT_LEN);
	social_password_hash(in->password, salt, hash);
	record.first_name = in->first_name;
	record.last_name = in->last_name;
	record.salt = salt;
	record.password_hash = hash;
	bytes = social_memory(request, social__user_record__get_packed_size(&record));
	social_begin(request);
	store_put(store, social_key(request, "n:%s", in->username),
		  (struct store_bytes){bytes, social__user_record__pack(&record, bytes)}, true,
		  end_put, u);
}

static void user_register_user(Social__UserService_Service *service, const Social__Account *in,
			       Social__Empty_Closure closure, void *request)
{
	(void)service, (void)closure;
	register_user(request, in, social_new_id());
}

static void user_register_user_with_id(Social__UserService_Service *service,
				       const Social__Account *in, Social__Empty_Closure closure,
				       void *request)
{
	(void)service, (void)closure;
	register_user(request, in, in->user_id);
}

/* Passes the record of a user on. */
static void got_user(const struct store_result *result, void *state)
{
	struct user *u = state;
	const struct store_bytes *bytes = result->n ? result->value : NULL;
	Social__UserRecord *record = NULL;

	if (result->status != LEND_OK) {
		social_fail(u->request, result->status, "users cannot be read");
		return;
	}
	if (bytes->data)
		record = social__user_record__unpack(NULL, bytes->len, bytes->data);
	if (record)
		u->found(u, record);
	else
		social_fail(u->request, LEND_NOT_FOUND, "no such user");
	if (record)
		social__user_record__free_unpacked(record, NULL);
}

static void find_user(void *request, const char *name, const Social__Account *in,
		      void (*found)(struct user *u, const Social__UserRecord *record))
{
	struct user *u = social_state(request, sizeof(*u));
	const char *key = social_key(request, "n:%.110s", name);

	u->request = request;
	u->in = social_copy(request, in);
	u->found = found;
	store_get(store, &key, 1, got_user, u);
}

static void answer_login(struct user *u, const Social__UserRecord *record)
{
	Social__Token reply = SOCIAL__TOKEN__INIT;
	char token[SOCIAL_TOKEN_MAX];

	if (!social_password_is(u->in->password, record->salt, record->password_hash)) {
		social_fail(u->request, LEND_UNAUTHENTICATED, "wrong password");
		return;
	}
	social_token_make(record->user_id, u->in->username, social_now_ms() / 1000, token);
	reply.token = token;
	social_answer(u->request, &reply.base);
}

static void user_login(Social__UserService_Service *service, const Social__Account *in,
		       Social__Token_Closure closure, void *request)
{
	(void)service, (void)closure;
	find_user(request, in->username, in, answer_login);
}

static void user_compose_creator_with_user_id(Social__UserService_Service *service,
					      const Social__User *in, Social__User_Closure closure,
					      void *request)
{
	(void)service;
	closure(in, request);
}

static void answer_creator(struct user *u, const Social__UserRecord *record)
{
	Social__User reply = SOCIAL__USER__INIT;

	reply.user_id = record->user_id;
	reply.username = u->in->username;
	social_answer(u->request, &reply.base);
}

static void answer_id(struct user *u, const Social__UserRecord *record)
{
	Social__Id reply = SOCIAL__ID__INIT;

	reply.id = record->user_id;
	social_answer(u->request, &reply.base);
}

static void user_compose_creator_with_username(Social__UserService_Service *service,
					       const Social__User *in, Social__User_Closure closure,
					       void *request)
{
	Social__Account account = SOCIAL__ACCOUNT__INIT;

	(void)service, (void)closure;
	account.username = in->username;
	find_user(request, in->username, &account, answer_creator);
}

static void user_get_user_id(Social__UserService_Service *service, const Social__User *in,
			     Social__Id_Closure closure, void *request)
{
	Social__Account account = SOCIAL__ACCOUNT__INIT;

	(void)service, (void)closure;
	find_user(request, in->username, &account, answer_id);
}

ProtobufCService *social_user(void)
{
	static Social__UserService_Service service = SOCIAL__USER_SERVICE__INIT(user_);

	store = store_open("user");
	return &service.base;
}
