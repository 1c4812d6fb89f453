// Anchors the exceptions' type information in the library, so that they are caught across its border.
#include <encore/error.h>

namespace encore {

Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
ScopeError::~ScopeError() = default;
ReplayError::~ReplayError() = default;
ChangedError::~ChangedError() = default;
DeterminismError::~DeterminismError() = default;
BudgetError::~BudgetError() = default;
SlotError::~SlotError() = default;

}  // namespace encore
