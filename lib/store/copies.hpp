// An item's bytes in each tier, and the one place that says whether they are the item's.
//
// The rule. Device bytes are good when whatever wrote them is over and went well: a stream's work up to a mark, or one
// transfer whose target were these very bytes. A host copy is good when a transfer has ended well that read good device
// bytes. There is no other evidence. That a stream works again is none: it does as soon as somebody was told of its
// failure, and what was skipped behind that stays unwritten. That a transfer has ended is none: the item may have given
// up the bytes that it wrote. A state is none: it says what is to become of an item.
// Bytes that an item is given are unwritten until somebody says who writes them. Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ferry/device.hpp"
#include "store/device_pool.hpp"

namespace ferry::store {

struct transfer;

/// What is known of an item's bytes on the device.
enum class verdict : std::uint8_t {
  unwritten,  ///< what stands there is something else
  pending,    ///< they are being written: whoever reads them is ordered after that
  good,
  lost,  ///< the work that was to write them has failed
};

class device_copy {
 public:
  enum class writer : std::uint8_t { nobody, work, link, over };

  explicit operator bool() const noexcept { return static_cast<bool>(region_); }
  [[nodiscard]] void* address() const noexcept { return region_.address(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return region_.bytes(); }
  [[nodiscard]] device_region const& region() const noexcept { return region_; }

  /// Other bytes, or none. Gives those before.
  device_region replace(device_region&& others = {}) noexcept {
    disown();
    return std::exchange(region_, std::move(others));
  }
  /// What stands there is not the item.
  void disown() noexcept {
    by_ = writer::nobody;
    work_ = {};
    link_ = nullptr;
  }
  /// Work on a stream writes them, up to the mark.
  void written_by(event_handle work) noexcept {
    disown();
    by_ = writer::work;
    work_ = std::move(work);
  }
  /// The link writes them.
  void written_by(transfer const& link) noexcept {
    disown();
    by_ = writer::link;
    link_ = &link;
  }
  [[nodiscard]] bool is_written_by(transfer const& link) const noexcept { return link_ == &link; }
  /// The transfer has ended well. True if these are the bytes that it wrote: then they are good.
  bool arrived(transfer const& link) noexcept {
    if (!is_written_by(link)) return false;
    link_ = nullptr;
    by_ = writer::over;
    return true;
  }

  [[nodiscard]] verdict look(device& on) const {
    switch (by_) {
      case writer::nobody:
        return verdict::unwritten;
      case writer::link:
        return verdict::pending;
      case writer::over:
        return verdict::good;
      case writer::work:
        break;
    }
    auto const status = on.query(work_.ref());
    return status == event_status::complete  ? verdict::good
           : status == event_status::pending ? verdict::pending
                                             : verdict::lost;
  }
  /// Who writes them, or wrote them; `over`: the link, and it is.
  [[nodiscard]] writer by() const noexcept { return by_; }
  /// After the work that writes them, or wrote them; empty if none does.
  [[nodiscard]] event_handle const& work() const noexcept { return work_; }

 private:
  device_region region_;
  writer by_ = writer::nobody;
  event_handle work_;
  transfer const* link_ = nullptr;
};

class host_copy {
 public:
  explicit operator bool() const noexcept { return static_cast<bool>(place_); }
  [[nodiscard]] void* address() const noexcept { return place_.address(); }
  /// The device bytes may go without a copy.
  [[nodiscard]] bool is_good() const noexcept { return good_; }
  [[nodiscard]] std::uint64_t checksum() const noexcept { return checksum_; }

  /// Other bytes, which hold nothing yet, or none. Gives those before.
  slab_piece replace(slab_piece&& others = {}) noexcept {
    good_ = false;
    return std::exchange(place_, std::move(others));
  }
  /// A transfer has filled them from good device bytes, and ended well.
  void arrived(std::uint64_t checksum) noexcept {
    good_ = true;
    checksum_ = checksum;
  }

 private:
  slab_piece place_;
  bool good_ = false;
  std::uint64_t checksum_ = 0;  ///< with FERRY_VERIFY=checksum
};

}  // namespace ferry::store
