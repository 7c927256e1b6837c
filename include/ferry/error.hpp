// Errors. Broken contracts and failed device calls throw one of these; expected outcomes are values.
// Every message says what happened and what to change.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "ferry/export.h"

namespace ferry {

/// Base of everything Ferry throws.
class FERRY_API error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~error() override;
};

/// An argument that no call may carry: a null pointer, zero bytes, a name that is too long, a foreign stream.
class FERRY_API invalid_argument : public error {
 public:
  using error::error;
  ~invalid_argument() override;
};

/// A setting that does not parse, is out of range, or is unknown.
class FERRY_API setting_error : public error {
 public:
  using error::error;
  ~setting_error() override;
};

/// A memory tier or byte budget cannot hold what was asked.
class FERRY_API out_of_memory : public error {
 public:
  out_of_memory(std::string const& message, std::size_t needed_bytes, std::size_t limit_bytes)
      : error(message), needed_bytes_(needed_bytes), limit_bytes_(limit_bytes) {}
  ~out_of_memory() override;
  [[nodiscard]] std::size_t needed_bytes() const noexcept { return needed_bytes_; }
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_bytes_; }

 private:
  std::size_t needed_bytes_;
  std::size_t limit_bytes_;
};

/// The device, or the budget on it, has no room.
class FERRY_API out_of_device_memory : public out_of_memory {
 public:
  out_of_device_memory(std::string const& message, std::size_t needed_bytes, std::size_t limit_bytes,
                       std::size_t enough_bytes = 0)
      : out_of_memory(message, needed_bytes, limit_bytes), enough_bytes_(enough_bytes) {}
  ~out_of_device_memory() override;
  /// The smallest budget known to be enough for the step that found no room; 0 if none is.
  [[nodiscard]] std::size_t enough_bytes() const noexcept { return enough_bytes_; }

 private:
  std::size_t enough_bytes_;
};

/// Pinned memory, or the budget of it, has no room.
class FERRY_API out_of_pinned_memory : public out_of_memory {
 public:
  using out_of_memory::out_of_memory;
  ~out_of_pinned_memory() override;
};

/// No plan fits the budget; `needed_bytes` is the smallest budget that one fits.
class FERRY_API infeasible_budget : public out_of_device_memory {
 public:
  using out_of_device_memory::out_of_device_memory;
  ~infeasible_budget() override;
};

/// A profile, hardware description or plan that cannot be read, is malformed, or contradicts itself. The message names
/// the file, the place in it and the fix.
class FERRY_API format_error : public error {
 public:
  using error::error;
  ~format_error() override;
};

/// A plan made for another step than the one at hand.
class FERRY_API plan_mismatch : public error {
 public:
  using error::error;
  ~plan_mismatch() override;
};

/// A key that was saved twice, was never saved, or has been released.
class FERRY_API key_error : public error {
 public:
  using error::error;
  ~key_error() override;
};

/// An item of that key is saved already.
class FERRY_API duplicate_key : public key_error {
 public:
  using key_error::key_error;
  ~duplicate_key() override;
};

/// No item of that key is saved, or it has been released.
class FERRY_API unknown_key : public key_error {
 public:
  using key_error::key_error;
  ~unknown_key() override;
};

/// A recipe that throws, needs itself, needs an item that is gone or was never saved, or (with FERRY_VERIFY=recipes)
/// gives other bits than its item has.
class FERRY_API recipe_error : public error {
 public:
  using error::error;
  ~recipe_error() override;
};

/// An operation failed asynchronously on a stream; surfaces at the next synchronisation or restore.
class FERRY_API stream_error : public error {
 public:
  stream_error(std::string operation, std::string const& message) : error(message), operation_(std::move(operation)) {}
  ~stream_error() override;
  /// The operation that failed, by the name it was enqueued with.
  [[nodiscard]] std::string const& operation() const noexcept { return operation_; }

 private:
  std::string operation_;
};

/// A transfer failed or a checksum did not match, and the item could not be brought back another way.
class FERRY_API transfer_error : public error {
 public:
  using error::error;
  ~transfer_error() override;
};

/// A session or device that was made before this process was forked. What it holds stays the parent's.
class FERRY_API forked_process : public error {
 public:
  using error::error;
  ~forked_process() override;
};

/// Ferry broke one of its own invariants (an illegal state transition, for instance): a bug in Ferry.
class FERRY_API internal_error : public error {
 public:
  using error::error;
  ~internal_error() override;
};

}  // namespace ferry
