/* user - the service of users: accounts, logins, and their ids.
 * Layer: apps. Threads: the endpoint's. */
#include <string.h>

#include "apps/social/password.h"
#include "apps/social/user_record.h"

static struct store *store;

/* A registration, or a lookup of a user. */
struct user {
	void *request;
	char *name, *password;
	const char *key;           /* registration: of the record in the store */
	struct store_bytes record; /* registration */
	int64_t id;
};

static const char exists[] = "the user exists already";

static void end_put(const struct store_result *result, void *state)
{
	struct user *u = state;

	if (social_ended_with(u->request, result->status,
			      result->status == LEND_ALREADY_EXISTS ? exists
								    : "users cannot be stored"))
		social_answer_empty(u->request);
}

/* Takes the name last, so that a registration that failed can be repeated. */
static void end_insert(const Social__Empty *reply, void *state)
{
	struct user *u = state;

	if (!social_ended(u->request, SOCIAL_SOCIAL_GRAPH, reply))
		return;
	social_begin(u->request);
	store_put(store, u->key, u->record, true, end_put, u);
}

/* Adds a user with a free name to the social graph. */
static void got_name(const struct store_result *result, void *state)
{
	struct user *u = state;
	bool taken = result->n && result->value[0].data;
	Social__Id id = SOCIAL__ID__INIT;

	id.id = u->id;
	if (social_ended_with(u->request, taken ? LEND_ALREADY_EXISTS : result->status,
			      taken ? exists : "users cannot be read"))
		social__social_graph_service__insert_user(
		    social_call(u->request, SOCIAL_SOCIAL_GRAPH), &id, end_insert, u);
}

static void register_user(void *request, const Social__Account *in, int64_t id)
{
	struct user *u = social_state(request, sizeof(*u));

	u->request = request;
	u->id = id;
	if (!*in->username || strlen(in->username) > SOCIAL_NAME_MAX) {
		social_fail(request, LEND_INVALID_ARGUMENT, "a name has 1 to 100 bytes");
		return;
	}
	u->key = user_key(request, in->username);
	u->record = user_record_make(request, in, id);
	social_begin(request);
	store_get(store, &u->key, 1, got_name, u);
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

/* Reads the record of a user. password: for found(). */
static void find_user(void *request, const char *name, const char *password, user_found_fn *found)
{
	struct user *u = social_state(request, sizeof(*u));

	u->request = request;
	u->name = social_text_copy(request, name, strlen(name));
	u->password = social_text_copy(request, password, strlen(password));
	user_record_find(request, store, name, found, u);
}

static void answer_login(const Social__UserRecord *record, void *state)
{
	struct user *u = state;
	Social__Token reply = SOCIAL__TOKEN__INIT;
	char token[SOCIAL_TOKEN_MAX];

	if (!social_password_is(u->password, record->salt, record->password_hash)) {
		social_fail(u->request, LEND_UNAUTHENTICATED, "wrong password");
		return;
	}
	social_token_make(record->user_id, u->name, social_now_ms() / 1000, token);
	reply.token = token;
	social_answer(u->request, &reply.base);
}

static void user_login(Social__UserService_Service *service, const Social__Account *in,
		       Social__Token_Closure closure, void *request)
{
	(void)service, (void)closure;
	find_user(request, in->username, in->password, answer_login);
}

static void user_compose_creator_with_user_id(Social__UserService_Service *service,
					      const Social__User *in, Social__User_Closure closure,
					      void *request)
{
	(void)service;
	closure(in, request);
}

static void answer_creator(const Social__UserRecord *record, void *state)
{
	struct user *u = state;
	Social__User reply = SOCIAL__USER__INIT;

	reply.user_id = record->user_id;
	reply.username = u->name;
	social_answer(u->request, &reply.base);
}

static void answer_id(const Social__UserRecord *record, void *state)
{
	struct user *u = state;
	Social__Id reply = SOCIAL__ID__INIT;

	reply.id = record->user_id;
	social_answer(u->request, &reply.base);
}

static void user_compose_creator_with_username(Social__UserService_Service *service,
					       const Social__User *in, Social__User_Closure closure,
					       void *request)
{
	(void)service, (void)closure;
	find_user(request, in->username, "", answer_creator);
}

static void user_get_user_id(Social__UserService_Service *service, const Social__User *in,
			     Social__Id_Closure closure, void *request)
{
	(void)service, (void)closure;
	find_user(request, in->username, "", answer_id);
}

ProtobufCService *social_user(void)
{
	static Social__UserService_Service service = SOCIAL__USER_SERVICE__INIT(user_);

	store = store_open("user");
	return &service.base;
}
