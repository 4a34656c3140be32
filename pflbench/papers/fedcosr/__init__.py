"""The FedCoSR paper (IEEE Transactions on Cybernetics 2025): its printed numbers and how it lays them out."""
