// Where the types of errors live: a destructor outside of the header makes the library their one home, so that what it
// throws is caught by type wherever it is linked.
#include "ferry/error.hpp"

namespace ferry {

error::~error() = default;
invalid_argument::~invalid_argument() = default;
setting_error::~setting_error() = default;
out_of_memory::~out_of_memory() = default;
out_of_device_memory::~out_of_device_memory() = default;
out_of_pinned_memory::~out_of_pinned_memory() = default;
infeasible_budget::~infeasible_budget() = default;
format_error::~format_error() = default;
plan_mismatch::~plan_mismatch() = default;
key_error::~key_error() = default;
duplicate_key::~duplicate_key() = default;
unknown_key::~unknown_key() = default;
recipe_error::~recipe_error() = default;
stream_error::~stream_error() = default;
transfer_error::~transfer_error() = default;
forked_process::~forked_process() = default;
internal_error::~internal_error() = default;

}  // namespace ferry
