"""Reasons that several operations share."""

NO_G = "the gradient of the loss is linear in g; without g the loss that follows has no influence"
MINUS_SIGN = "follow the sign through the derivation, one step at a time"
OFF_DIAGONAL = "the Jacobian of softmax has entries off the diagonal too: raising one score lowers the others' weights"
